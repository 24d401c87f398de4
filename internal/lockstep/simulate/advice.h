// SPDX-License-Identifier: Apache-2.0
// A plan: the predicted speed for each number of ranks, the bottleneck of a step, and changes that pay off. All of it
// is simulated, by pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/simulate/predict.h"

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// A number of ranks and the prediction for it.
struct PlanPoint {
  Cluster cluster;        ///< the machines with these ranks
  Prediction prediction;  ///< the mean step on them
};

/// The prediction for a step with one change.
struct Alternative {
  std::string name;   ///< "buckets of 4 MiB", "bf16 hook"
  double step_s = 0;  ///< time of a step with the change
  double gain = 0;    ///< (time before - time with the change) / time before; below 0: slower
};

/// The input of make_plan().
struct PlanRequest {
  Cluster cluster = {};                           ///< the machines to plan for
  SimulationOptions simulation = {};              ///< the settings of the simulation
  std::optional<std::int64_t> bucket_bytes = {};  ///< size of newly planned buckets; none: the buckets stay as measured
  std::int64_t power_sgd_rank = 1;                ///< rank of the PowerSGD hook to try
  int most_ranks = 1024;                          ///< largest number of ranks on the curve
};

/// The result of make_plan().
struct Plan {
  PlanPoint asked;               ///< the prediction for the requested machines
  std::vector<PlanPoint> curve;  ///< predictions by number of ranks: 1, 2, 4, ... on one machine, then whole machines
  std::string bottleneck;        ///< "computation", "bandwidth", "latency", "processors" or "uneven steps"
  std::vector<Alternative> limits;        ///< steps, each without one of the limits
  std::vector<Alternative> buckets;       ///< buckets of other sizes
  std::vector<Alternative> alternatives;  ///< other backends, hooks and ZeRO
  std::int64_t best_bucket_bytes = 0;     ///< the best size in `buckets`; 0: the current size is as good
};

/// Simulates all parts of a Plan.
/// Cost: about thirty simulations; the simulation with `most_ranks` takes most of the time.
/// Throws: anything predict() throws.
[[nodiscard]] Plan make_plan(const Workload& workload, const PlanRequest& request);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
