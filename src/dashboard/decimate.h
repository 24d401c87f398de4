// SPDX-License-Identifier: Apache-2.0
// Reduces curves to few enough points to draw: the smallest and the largest value of each piece, so that no spike is
// lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "lockstep/view/run_curves.h"

namespace lockstep::dashboard {

/// Part of a curve.
struct CurveWindow {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();   ///< the first step
  std::int64_t high = std::numeric_limits<std::int64_t>::max();  ///< the last step
  std::size_t points = 2000;                                     ///< maximum number of points to keep, at least 4
};

/// Returns the points of `curve` in the window and one on each side of it. If there are more than `points`, it divides
/// the steps into points / 2 pieces and returns the smallest and the largest point of each, ordered by step.
[[nodiscard]] view::Curve decimated(const view::Curve& curve, const CurveWindow& window);

}  // namespace lockstep::dashboard
