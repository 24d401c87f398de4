// SPDX-License-Identifier: Apache-2.0
// Finds spikes of a loss: steps far above the steps before them. Pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/view/run_curves.h"

namespace lockstep::worker {

struct Spike {
  std::int64_t step = 0;
  double loss = 0;
  double usual = 0;  ///< median of the points before the spike
  double jump = 0;   ///< height above `usual`, in median absolute deviations of those points
};

/// Returns at most `limit` spikes, the largest first; each point is compared with the 3 to 20 points before it.
[[nodiscard]] std::vector<Spike> largest_spikes(const view::Curve& loss, std::size_t limit);

}  // namespace lockstep::worker
