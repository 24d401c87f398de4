// SPDX-License-Identifier: Apache-2.0
#include "data/sources/files/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace lockstep::data {

std::string_view without_blanks(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::optional<double> number_of(std::string_view text) noexcept {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> whole_number_of(std::string_view text) noexcept {
  std::int64_t exact = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), exact);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return exact;
  const std::optional<double> number = number_of(text);
  if (!number || std::abs(*number) > kMostExact || *number != std::trunc(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::string object_fault(const Object& object) {
  const Box& box = object.box;
  if (!is_coordinate(box.x1) || !is_coordinate(box.y1) || !is_coordinate(box.x2) || !is_coordinate(box.y2)) {
    return fmt::format("a box of [{}, {}, {}, {}]", box.x1, box.y1, box.x2, box.y2);
  }
  if (!is_area(object.area)) return fmt::format("an area of {} pixels", object.area);
  for (const Point& point : object.points) {
    if (!is_coordinate(point.x) || !is_coordinate(point.y)) return fmt::format("a point at ({}, {})", point.x, point.y);
  }
  return "";
}

}  // namespace lockstep::data
