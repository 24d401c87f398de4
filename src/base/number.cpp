// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/whole_number.h"

namespace lockstep::text {

std::optional<double> parse_number(std::string_view text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

std::string json_number(double value, int decimals) {
  if (!std::isfinite(value)) return "null";
  return decimals < 0 ? fmt::format("{}", value) : fmt::format("{:.{}f}", value, decimals);
}

}  // namespace lockstep::text

namespace lockstep {

std::optional<std::int64_t> parse_whole(std::string_view text, const WholeRange& range) noexcept {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < range.least || value > range.most) return std::nullopt;
  return value;
}

std::int64_t whole_number(std::string_view name, std::string_view text, const WholeRange& range) {
  if (const auto value = parse_whole(text, range)) return *value;
  throw UsageError(fmt::format("{} is '{}'; it must be {}", name, text, to_text(range)));
}

std::string to_text(const WholeRange& range) {
  return fmt::format("a whole number, {} .. {}", text::thousands(range.least), text::thousands(range.most));
}

}  // namespace lockstep
