// SPDX-License-Identifier: Apache-2.0
// A discrete-event simulation of training steps on many ranks: the calls to collectives, the waits between ranks, and
// the transfer time of each collective. It is pure: no disk, no network.
#pragma once

#include "lockstep/simulate/cluster.h"
#include "lockstep/simulate/workload.h"

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// The settings of a simulation.
struct SimulationOptions {
  int steps = 24;        ///< simulated steps that are counted
  int warmup = 4;        ///< uncounted steps before these, while the connections reach full speed
  bool is_even = false;  ///< every rank repeats the median step; false: steps are drawn from the measured steps
};

/// The means over the counted steps.
struct Prediction {
  double step_s = 0;     ///< time of a step
  double compute_s = 0;  ///< the part that a rank spends computing, averaged over the ranks
  double waiting_s = 0;  ///< the part that a rank spends waiting for collectives

  /// Returns the images per second of `ranks` ranks that each compute `images` in a step.
  [[nodiscard]] double rate(int ranks, double images) const { return step_s > 0 ? ranks * images / step_s : 0; }
};

/// Simulates `workload`'s steps on `cluster`. The same arguments give the same result.
/// Cost: proportional to ranks, collectives and steps.
/// Throws: UsageError if there is no step or no rank.
[[nodiscard]] Prediction predict(const Workload& workload, const Cluster& cluster,
                                 const SimulationOptions& options = {});

}  // namespace lockstep::simulate

#pragma GCC visibility pop
