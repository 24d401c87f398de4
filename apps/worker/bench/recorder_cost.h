// SPDX-License-Identifier: Apache-2.0
// Measures what a process's sinks (flight recorder, step report) cost a step: pairs of steps, one with the sinks and
// one without, in one process. Two processes on a shared machine differ by more than that cost.
#pragma once

#include <cstdint>
#include <functional>

#include "worker/bench/measure.h"

namespace lockstep::worker {

struct RecorderCost {
  std::int64_t pairs = 0;
  double median_seconds = 0;   ///< time of a step without the sinks
  MedianRange ratio = {};      ///< ratio of step times: with the sinks / without them
  double events_per_step = 0;  ///< number of events in a step: two for each span, at its start and its end
  double event_seconds = 0;    ///< time to record one event, measured in a loop
};

/// Collective: yes, if `step` is. Throws: UsageError in a process without a recorder.
[[nodiscard]] RecorderCost measure_recorder(std::int64_t pairs, const std::function<void()>& step);

}  // namespace lockstep::worker
