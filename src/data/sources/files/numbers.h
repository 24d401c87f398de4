// SPDX-License-Identifier: Apache-2.0
// The numbers of foreign files that are accepted: one answer for all formats. No torch header.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::data {

inline constexpr double kMaxCoordinate = 1e6;  // pixels, beyond the largest picture: floats still resolve 0.1 of them
inline constexpr double kMaxArea = 1e12;       // pixels

/// Returns true for a valid coordinate of a box or a point, in pixels; false for a number that is not finite.
[[nodiscard]] constexpr bool is_coordinate(double value) noexcept {
  return value >= -kMaxCoordinate && value <= kMaxCoordinate;
}

[[nodiscard]] constexpr bool is_area(double value) noexcept { return value >= 0 && value <= kMaxArea; }

/// True if a float can hold about this number: without this check 1e308 would become infinite.
[[nodiscard]] constexpr bool fits_float(double value) noexcept {
  constexpr double kMost = std::numeric_limits<float>::max();
  return value >= -kMost && value <= kMost;
}

/// Returns `text` without the blanks and line ends around it.
[[nodiscard]] std::string_view without_blanks(std::string_view text) noexcept;

/// Returns the number that all of `text` is, with or without a plus; none if it is no finite number in range.
[[nodiscard]] std::optional<double> number_of(std::string_view text) noexcept;

/// Returns the whole number that `text` is, also as 10.0, which tables of floats contain; else none.
[[nodiscard]] std::optional<std::int64_t> whole_number_of(std::string_view text) noexcept;

/// Doubles hold every whole number up to this, 2^53.
inline constexpr double kMostExact = 9'007'199'254'740'992.0;

/// Returns "" if box, area and points of an object are such numbers, else the one that is not.
[[nodiscard]] std::string object_fault(const Object& object);

}  // namespace lockstep::data
