// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

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
