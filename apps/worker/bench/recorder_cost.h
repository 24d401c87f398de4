// SPDX-License-Identifier: Apache-2.0
// The cost to a step of the process's sinks (the flight recorder, the step report's clock): pairs of steps, one with
// them and one without, in one process. Two processes of a shared machine differ by more than that cost.
#pragma once

#include <cstdint>
#include <functional>

#include "worker/bench/measure.h"

namespace lockstep::worker {

struct RecorderCost {
  std::int64_t pairs = 0;
  double median_seconds = 0;   ///< of a step without them
  MedianRange ratio = {};      ///< of step times: with the sinks / without them
  double events_per_step = 0;  ///< each span has an event at its begin and one at its end
  double event_seconds = 0;    ///< one event of the recorder, measured in a loop
};

/// Collective: yes, if `step` is. Throws: UsageError in a process without a recorder.
[[nodiscard]] RecorderCost measure_recorder(std::int64_t pairs, const std::function<void()>& step);

}  // namespace lockstep::worker
