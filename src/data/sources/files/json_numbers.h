// SPDX-License-Identifier: Apache-2.0
// Numbers in untrusted JSON: each value is accepted or rejected by name, never ignored. No torch header.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/base/result.h"

namespace lockstep::data {

/// Returns a value for a message, as JSON that is cut short if it is long.
[[nodiscard]] std::string shown_json(const nlohmann::json& value);

/// Returns `value` if it is an integer, including 1.0, as found in tables of floats.
[[nodiscard]] std::optional<std::int64_t> whole_number(const nlohmann::json& value);

/// Returns the value of `object` under `key`; none if the key is missing or null. Fails for any other value.
[[nodiscard]] Result<std::optional<std::int64_t>> whole_number_at(const nlohmann::json& object, const char* key);
[[nodiscard]] Result<std::optional<double>> number_at(const nlohmann::json& object, const char* key);
/// Accepts true, false, or a number (only 0 means false).
[[nodiscard]] Result<std::optional<bool>> flag_at(const nlohmann::json& object, const char* key);

/// Returns a hint for `text`, which is not valid JSON at `byte`: " (NaN is not a JSON number)" for the words that
/// Python's json.dumps() writes, else "".
[[nodiscard]] std::string json_hint(std::string_view text, std::size_t byte);

}  // namespace lockstep::data
