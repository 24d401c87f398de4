// SPDX-License-Identifier: Apache-2.0
// What the digests of a step cost: updates with and without them in turn, and the record in the file. Pairs of whole
// steps differ by more than the figure that is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/tensor/named_tensors.h"
#include "worker/bench/measure.h"

namespace lockstep::worker {

/// Seconds.
struct DigestCost {
  std::int64_t pairs = 0;
  double step = 0;          ///< median of a whole step without digests
  double update = 0;        ///< median of the optimizer's update without digests
  MedianRange digest = {};  ///< what an update with digests takes longer
  double record = 0;        ///< median of a record's write, which rank 0 does
  /// Returns the share of a step that the upper or lower end, or the median, is.
  [[nodiscard]] double share(double digest_seconds) const { return (digest_seconds + record) / step; }
};

/// Runs `pairs` updates of each kind with an optimizer of `type` on copies of the parameters, and every few of them a
/// `step`, so that all see the same machine. Collective: yes, where `step` is.
[[nodiscard]] DigestCost measure_digests(std::int64_t pairs, const NamedTensors& parameters, const std::string& type,
                                         const std::function<void()>& step);

}  // namespace lockstep::worker
