// SPDX-License-Identifier: Apache-2.0
// Jumps of a loss: steps far above those before them. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/view/run_curves.h"

namespace lockstep::worker {

struct Spike {
  std::int64_t step = 0;
  double loss = 0;
  double usual = 0;  ///< median of the points before
  double jump = 0;   ///< its height above that, in median absolute deviations of these points
};

/// Returns at most `limit` jumps, the largest first; each is compared with up to 20 points before it, at least 3.
[[nodiscard]] std::vector<Spike> largest_spikes(const view::Curve& loss, std::size_t limit);

}  // namespace lockstep::worker
