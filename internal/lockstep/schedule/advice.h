// SPDX-License-Identifier: Apache-2.0
// The advice of a plan: the curve over the ranks, the bottleneck of a step, and changes that would pay. All of it is
// simulated. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/schedule/simulate.h"

#pragma GCC visibility push(default)

namespace lockstep::schedule {

/// A number of ranks and what is predicted for them.
struct PlanPoint {
  Cluster cluster;        ///< its machines
  Prediction prediction;  ///< of a step on them
};

/// A step that one thing is changed in.
struct Alternative {
  std::string name;   ///< "buckets of 4 MiB", "bf16 hook"
  double step_s = 0;  ///< of a step with it
  double gain = 0;    ///< (step before - step with it) / step before; below 0: it is slower
};

/// The question to a plan.
struct PlanRequest {
  Cluster cluster = {};                           ///< the machines that are planned for
  SimulationOptions simulation = {};              ///< how it is simulated
  std::optional<std::int64_t> bucket_bytes = {};  ///< plans the buckets anew; none: as they were measured
  std::int64_t power_sgd_rank = 1;                ///< of the PowerSGD hook that is tried
  int most_ranks = 1024;                          ///< at the end of the curve
};

/// A plan's answer.
struct Plan {
  PlanPoint asked;                        ///< for the machines that were asked for
  std::vector<PlanPoint> curve;           ///< by ranks: 1, 2, 4, ... of one machine, then whole machines
  std::string bottleneck;                 ///< "computation", "bandwidth", "latency", "processors" or "uneven steps"
  std::vector<Alternative> limits;        ///< a step without one of these
  std::vector<Alternative> buckets;       ///< other sizes of buckets
  std::vector<Alternative> alternatives;  ///< other backends, hooks and ZeRO
  std::int64_t best_bucket_bytes = 0;     ///< of `buckets`; 0: the present ones are as good
};

/// Simulates everything that a Plan has.
/// Cost: some thirty simulations, of which the one with `most_ranks` takes most.
/// Throws: as simulate().
[[nodiscard]] Plan make_plan(const Workload& workload, const PlanRequest& request);

}  // namespace lockstep::schedule

#pragma GCC visibility pop
