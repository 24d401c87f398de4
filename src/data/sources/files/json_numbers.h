// SPDX-License-Identifier: Apache-2.0
// Numbers of foreign JSON: what is there is taken or refused by its name, never passed over. No torch header.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lockstep/base/result.h"

namespace lockstep::data {

/// A value as a message shows it: short, and any bytes of it as JSON.
[[nodiscard]] std::string shown_json(const nlohmann::json& value);

/// Whether `value` is a whole number, also written as 1.0, which tables of floats leave.
[[nodiscard]] std::optional<std::int64_t> whole_number(const nlohmann::json& value);

/// What `object` says under `key`; none where the key is missing or null. Fails where it is something else.
[[nodiscard]] Result<std::optional<std::int64_t>> whole_number_at(const nlohmann::json& object, const char* key);
[[nodiscard]] Result<std::optional<double>> number_at(const nlohmann::json& object, const char* key);
/// True and false, or a number that is 0 for false.
[[nodiscard]] Result<std::optional<bool>> flag_at(const nlohmann::json& object, const char* key);

/// What follows the text `text`, which is no JSON at `byte`: " (NaN is none)" where a program wrote what Python's
/// json.dumps() writes for such numbers, else "".
[[nodiscard]] std::string json_hint(std::string_view text, std::size_t byte);

}  // namespace lockstep::data
