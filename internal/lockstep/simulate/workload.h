// SPDX-License-Identifier: Apache-2.0
// A training step as it was measured: its own computation, and the collectives that it calls meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// The kind of a collective.
enum class CallKind {
  kAllReduce,      ///< every rank gets the sum
  kReduceScatter,  ///< every rank gets its part of the sum
  kAllGather,      ///< every rank gets the parts of all
  kBroadcast,      ///< every rank gets the data of one
  kBarrier         ///< every rank waits for all
};

/// A collective of a step. Its times are seconds of the rank's own computation since the step began, without the time
/// that the rank has waited.
struct Call {
  CallKind kind = CallKind::kAllReduce;  ///< its kind
  std::int64_t bytes = 0;  ///< the bytes that this rank contributes; of kAllGather: that all contribute together
  int bucket = -1;         ///< the number of a gradient bucket; -1: none
  double called_s = 0;     ///< when it was called
  double waited_s = -1;    ///< when the rank needs its result; below 0: not in this step
};

/// One step of one rank. It begins when the gradients of the last step are complete.
struct MeasuredStep {
  double compute_s = 0;          ///< the rank's own computation
  double backward_s = 0;         ///< the part before backward begins
  double optimizer_end_s = 0;    ///< the part until the optimizer is done
  double optimizer_s = 0;        ///< the part in the optimizer; 0: unknown
  std::vector<Call> calls = {};  ///< in the order in which they are called
};

/// Steps of a run. All of them have the same calls, except for their times.
struct Workload {
  int ranks = 0;              ///< ranks of the run
  int ranks_per_machine = 0;  ///< ranks on each machine of the run
  double images = 0;          ///< images of one rank in one step; 0: unknown
  double measured_s = 0;      ///< median time of a step, with all waits
  double alone = 1;  ///< own computation of a rank without others on its machine, as a share of the measured one
  std::vector<MeasuredStep> steps = {};                ///< steps of all ranks
  std::vector<std::vector<std::int64_t>> shapes = {};  ///< shapes of the parameters; empty: unknown
};

/// Returns the gradient bytes of a step.
[[nodiscard]] std::int64_t gradient_bytes(const MeasuredStep& step);
/// Returns the bytes of each bucket of a step, in the order of reduction.
[[nodiscard]] std::vector<std::int64_t> bucket_bytes(const MeasuredStep& step);
/// Returns the median of the steps' own computation, in seconds. Requires a step.
[[nodiscard]] double median_compute_s(const Workload& workload);
/// Returns the value of Workload::alone for a machine on which one rank, which copies no gradients into buckets, took
/// `alone_s` a step: 1 at most, because neighbours never make a rank faster. `copy_bytes_per_s` is the rate of copying
/// memory; 0: copying takes no time. Requires a step.
[[nodiscard]] double alone_share(const Workload& workload, double alone_s, double copy_bytes_per_s);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
