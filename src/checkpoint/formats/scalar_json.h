// SPDX-License-Identifier: Apache-2.0
// Plain values as canonical JSON text: each value has only one text, so that files and digests compare. No torch here:
// it reads foreign bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/base/result.h"

namespace lockstep::checkpoint {

using Scalar = std::variant<std::int64_t, double, bool, std::string>;

/// Returns `12`, `0.5`, `1.0`, `true` or `"text"`; numbers that JSON lacks become `{"float":"nan"}`, `"inf"` or
/// `"-inf"`. Fails if a text is not UTF-8.
[[nodiscard]] Result<std::string> scalar_to_json(const Scalar& value);

/// Parses such a text, with any spacing. Fails on anything else.
[[nodiscard]] Result<Scalar> scalar_from_json(std::string_view json);

/// Returns `text` as a JSON string with its quotes. Fails if it is not UTF-8.
[[nodiscard]] Result<std::string> quote_json(std::string_view text);

}  // namespace lockstep::checkpoint
