// SPDX-License-Identifier: Apache-2.0
// Writes plain values as canonical JSON text: each value has exactly one text, so that files and digests can be
// compared. It parses untrusted bytes, and does so without libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/base/result.h"

namespace lockstep::checkpoint {

using Scalar = std::variant<std::int64_t, double, bool, std::string>;

/// Returns `12`, `0.5`, `1.0`, `true` or `"text"`. Numbers that JSON lacks become `{"float":"nan"}`, with "nan", "inf"
/// or "-inf". Fails if a string is not UTF-8, or if its text is longer than 16 MiB, which scalar_from_json() does not
/// read.
[[nodiscard]] Result<std::string> scalar_to_json(const Scalar& value);

/// Parses the output of scalar_to_json(), with any whitespace. Fails for any other text, and above 16 MiB.
[[nodiscard]] Result<Scalar> scalar_from_json(std::string_view json);

/// Returns `text` as a JSON string with its quotes. Fails if it is not UTF-8.
[[nodiscard]] Result<std::string> quote_json(std::string_view text);

}  // namespace lockstep::checkpoint
