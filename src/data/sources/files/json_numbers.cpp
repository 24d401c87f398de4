// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/json_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/sources/files/numbers.h"

#include "lockstep/base/json.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

constexpr std::size_t kMostShown = 40;  // maximum bytes of a value in a message

/// Returns the value under `key`; null if there is none.
const json* value_at(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

Failure refused(const char* key, const json& value, const char* wanted) {
  return {fmt::format("\"{}\" is {}, must be {}", key, shown_json(value), wanted)};
}

}  // namespace

std::string shown_json(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return value.is_string() ? "the text " + text : text;
}

std::optional<std::int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    const bool fits = number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return fits ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  const bool whole = std::abs(number) <= kMostExact && number == std::trunc(number);
  return whole ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

Result<std::optional<std::int64_t>> whole_number_at(const json& object, const char* key) {
  const json* value = value_at(object, key);
  if (value == nullptr) return std::optional<std::int64_t>();
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number) return refused(key, *value, "a whole number");
  return number;
}

Result<std::optional<double>> number_at(const json& object, const char* key) {
  const json* value = value_at(object, key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return refused(key, *value, "a number");
  return std::optional(value->get<double>());
}

Result<std::optional<bool>> flag_at(const json& object, const char* key) {
  const json* value = value_at(object, key);
  if (value == nullptr) return std::optional<bool>();
  if (value->is_boolean()) return std::optional(value->get<bool>());
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number) return refused(key, *value, "0, 1, true or false");
  return std::optional(*number != 0);
}

std::string json_hint(std::string_view text, std::size_t byte) {
  constexpr std::size_t kBefore = 9;  // length of the longest word below, -Infinity included
  const std::size_t begin = byte > kBefore ? byte - kBefore : 0;
  const std::string_view around = text.substr(std::min(begin, text.size()), 2 * kBefore);
  for (const std::string_view word : {"NaN", "Infinity", "nan", "inf"}) {
    if (around.find(word) != around.npos) return fmt::format(" ({} is not a JSON number)", word);
  }
  return "";
}

}  // namespace lockstep::data
