// SPDX-License-Identifier: Apache-2.0
// A discrete simulation of training steps on many ranks: the calls of collectives, the waits between ranks, and the
// time that the bytes of each collective take. Pure.
#pragma once

#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// The settings of a simulation.
struct SimulationOptions {
  int steps = 24;        ///< counted steps
  int warmup = 4;        ///< steps before them, in which the connections reach their speed
  bool is_even = false;  ///< every rank takes the median step; else each step of a rank is one of the measured ones
};

/// The mean of the counted steps.
struct Prediction {
  double step_s = 0;     ///< time of a step
  double compute_s = 0;  ///< the part of a rank's own computation, mean over the ranks
  double waiting_s = 0;  ///< the part in which the rank waits for a collective

  /// Returns the images a second of `ranks` ranks that compute `images` each in a step.
  [[nodiscard]] double rate(int ranks, double images) const { return step_s > 0 ? ranks * images / step_s : 0; }
};

/// Simulates `workload`'s steps on `cluster`. The same arguments give the same result.
/// Cost: proportional to ranks, collectives and steps.
/// Throws: UsageError if there is no step or no rank.
[[nodiscard]] Prediction predict(const Workload& workload, const Cluster& cluster,
                                 const SimulationOptions& options = {});

}  // namespace lockstep::simulate

#pragma GCC visibility pop
