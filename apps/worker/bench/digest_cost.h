// SPDX-License-Identifier: Apache-2.0
// Measures the cost of a step's digests: alternating updates with and without digests, and the record in the file.
// Timing whole steps would not work, because two of them differ by more than that cost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/tensor/named_tensors.h"
#include "worker/bench/measure.h"

namespace lockstep::worker {

/// The cost of digests. Units: seconds.
struct DigestCost {
  std::int64_t pairs = 0;
  double step = 0;          ///< median of a whole step without digests
  double update = 0;        ///< median of the optimizer's update without digests
  MedianRange digest = {};  ///< extra time of an update with digests
  double record = 0;        ///< median time to write a record, on rank 0
  /// Returns the cost as a share of a step. `digest_seconds`: the median of `digest`, or an end of its range.
  [[nodiscard]] double share(double digest_seconds) const { return (digest_seconds + record) / step; }
};

/// Runs `pairs` updates of each kind with an optimizer of `type` on copies of the parameters. Runs `step` between some
/// of them, so that all run under the same conditions. Collective: yes, if `step` is.
[[nodiscard]] DigestCost measure_digests(std::int64_t pairs, const NamedTensors& parameters, const std::string& type,
                                         const std::function<void()>& step);

}  // namespace lockstep::worker
