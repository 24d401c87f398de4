// SPDX-License-Identifier: Apache-2.0
// Which numbers of foreign files are taken: one answer for all formats. No torch header.
#pragma once

#include <limits>
#include <string>

#include "lockstep/data/picture.h"

namespace lockstep::data {

inline constexpr double kMaxCoordinate =
    1e6;                                  // pixels, beyond the largest picture: floats still tell 0.1 of them apart
inline constexpr double kMaxArea = 1e12;  // pixels

/// Returns true for a valid coordinate of a box or a point, in pixels; false for a number that is not finite.
[[nodiscard]] constexpr bool is_coordinate(double value) noexcept {
  return value >= -kMaxCoordinate && value <= kMaxCoordinate;
}

[[nodiscard]] constexpr bool is_area(double value) noexcept { return value >= 0 && value <= kMaxArea; }

/// Whether a float holds about this number: without the question 1e308 would become infinite.
[[nodiscard]] constexpr bool fits_float(double value) noexcept {
  constexpr double kMost = std::numeric_limits<float>::max();
  return value >= -kMost && value <= kMost;
}

/// "" where box, area and points of an object are numbers of this kind, else which one is not.
[[nodiscard]] std::string object_fault(const Object& object);

}  // namespace lockstep::data
