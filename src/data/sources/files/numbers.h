// SPDX-License-Identifier: Apache-2.0
// Decides which numbers in untrusted files are accepted, in the same way for all formats. No torch header.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/picture.h"

namespace lockstep::data {

inline constexpr double kMaxCoordinate = 1e6;  // in pixels: more than any image has; floats still resolve 0.1 pixels
inline constexpr double kMaxArea = 1e12;       // pixels

/// Returns true for a valid coordinate of a box or a point, in pixels; false for a number that is not finite.
[[nodiscard]] constexpr bool is_coordinate(double value) noexcept {
  return value >= -kMaxCoordinate && value <= kMaxCoordinate;
}

[[nodiscard]] constexpr bool is_area(double value) noexcept { return value >= 0 && value <= kMaxArea; }

/// True if the number is within float's range: without this check 1e308 would become infinite.
[[nodiscard]] constexpr bool fits_float(double value) noexcept {
  constexpr double kMost = std::numeric_limits<float>::max();
  return value >= -kMost && value <= kMost;
}

/// Returns `text` without surrounding blanks and line ends.
[[nodiscard]] std::string_view without_blanks(std::string_view text) noexcept;

/// Parses all of `text` as a number, with or without a plus sign; none if it is not a finite number in range.
[[nodiscard]] std::optional<double> number_of(std::string_view text) noexcept;

/// Parses `text` as an integer, including 10.0, as found in tables of floats; none if it is not one.
[[nodiscard]] std::optional<std::int64_t> whole_number_of(std::string_view text) noexcept;

/// Doubles represent every integer up to this, 2^53.
inline constexpr double kMostExact = 9'007'199'254'740'992.0;

/// Returns "" if box, area and points of an object are valid numbers, else a description of the invalid one.
[[nodiscard]] std::string object_fault(const Object& object);

}  // namespace lockstep::data
