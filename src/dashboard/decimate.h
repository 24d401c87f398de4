// SPDX-License-Identifier: Apache-2.0
// Curves with few enough points to draw: the least and the largest value of each piece, so that no spike is lost. Pure.
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
  std::size_t points = 2000;                                     ///< at most this many, and at least 4
};

/// Returns the points of `curve` in the window and one on each side of it. If there are more than `points`, each of
/// points / 2 pieces of steps has its least and its largest one, in the order of their steps.
[[nodiscard]] view::Curve decimated(const view::Curve& curve, const CurveWindow& window);

}  // namespace lockstep::dashboard
