// SPDX-License-Identifier: Apache-2.0
// The advice of a plan: the curve over the ranks, the bottleneck of a step, and changes that would pay. All of it is
// simulated. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/simulate/predict.h"

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// A number of ranks and its prediction.
struct PlanPoint {
  Cluster cluster;        ///< its machines
  Prediction prediction;  ///< a step on them
};

/// A step with one change.
struct Alternative {
  std::string name;   ///< "buckets of 4 MiB", "bf16 hook"
  double step_s = 0;  ///< time of a step with it
  double gain = 0;    ///< (step before - step with it) / step before; below 0: it is slower
};

/// The question to a plan.
struct PlanRequest {
  Cluster cluster = {};                           ///< the machines to plan for
  SimulationOptions simulation = {};              ///< the settings of the simulation
  std::optional<std::int64_t> bucket_bytes = {};  ///< plans the buckets anew; none: as they were measured
  std::int64_t power_sgd_rank = 1;                ///< rank of the PowerSGD hook to try
  int most_ranks = 1024;                          ///< at the end of the curve
};

/// A plan's answer.
struct Plan {
  PlanPoint asked;                        ///< for the requested machines
  std::vector<PlanPoint> curve;           ///< by ranks: 1, 2, 4, ... of one machine, then whole machines
  std::string bottleneck;                 ///< "computation", "bandwidth", "latency", "processors" or "uneven steps"
  std::vector<Alternative> limits;        ///< a step without one of these
  std::vector<Alternative> buckets;       ///< buckets of other sizes
  std::vector<Alternative> alternatives;  ///< other backends, hooks and ZeRO
  std::int64_t best_bucket_bytes = 0;     ///< the best size in `buckets`; 0: the present one is as good
};

/// Simulates all parts of a Plan.
/// Cost: some thirty simulations; the one with `most_ranks` takes most of the time.
/// Throws: as predict().
[[nodiscard]] Plan make_plan(const Workload& workload, const PlanRequest& request);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
