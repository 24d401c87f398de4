// SPDX-License-Identifier: Apache-2.0
// A discrete simulation of training steps on many ranks: who calls which collective when, who waits for whom, and how
// long the bytes of each collective are on their way. Pure.
#pragma once

#include "lockstep/schedule/cluster.h"
#include "lockstep/schedule/workload.h"

#pragma GCC visibility push(default)

namespace lockstep::schedule {

/// How it is simulated.
struct SimulationOptions {
  int steps = 24;        ///< counted steps
  int warmup = 4;        ///< steps before them, in which the connections find their speed
  bool is_even = false;  ///< every rank takes the median step; else each step of a rank is one of those measured
};

/// The mean of the counted steps.
struct Prediction {
  double step_s = 0;     ///< of a step
  double compute_s = 0;  ///< of it: a rank's own computation, mean over the ranks
  double waiting_s = 0;  ///< of it: the rank waits for a collective

  /// Returns the images a second of `ranks` ranks with `images` each in a step.
  [[nodiscard]] double rate(int ranks, double images) const { return step_s > 0 ? ranks * images / step_s : 0; }
};

/// Simulates `workload`'s steps on `cluster`. The same arguments give the same result.
/// Cost: grows with ranks, collectives and steps, each once.
/// Throws: UsageError if there is no step or no rank.
[[nodiscard]] Prediction simulate(const Workload& workload, const Cluster& cluster,
                                  const SimulationOptions& options = {});

}  // namespace lockstep::schedule

#pragma GCC visibility pop
