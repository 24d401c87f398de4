// SPDX-License-Identifier: Apache-2.0
// Measured training steps: the computation of a rank, and the collectives that it calls.
#pragma once

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep::simulate {

/// The kind of a collective.
enum class CallKind {
  kAllReduce,      ///< every rank gets the sum
  kReduceScatter,  ///< every rank gets its part of the sum
  kAllGather,      ///< every rank gets the parts of all ranks
  kBroadcast,      ///< every rank gets the data of one rank
  kBarrier         ///< every rank waits for all ranks
};

/// A collective of a step. Its times are seconds of the rank's own computation since the step began, without waits.
struct Call {
  CallKind kind = CallKind::kAllReduce;  ///< the kind of the collective
  std::int64_t bytes = 0;  ///< the bytes that this rank contributes; for kAllGather the bytes of all ranks
  int bucket = -1;         ///< number of the gradient bucket; -1: not a bucket
  double called_s = 0;     ///< the time of the call
  double waited_s = -1;    ///< the time at which the rank needs the result; below 0: not in this step
};

/// One step of one rank. It begins when the gradients of the previous step are complete.
struct MeasuredStep {
  double compute_s = 0;          ///< time of the rank's own computation
  double backward_s = 0;         ///< the part of it before backward begins
  double optimizer_end_s = 0;    ///< the part of it until the optimizer is done
  double optimizer_s = 0;        ///< the part of it in the optimizer; 0: unknown
  std::vector<Call> calls = {};  ///< collectives, in the order of the calls
};

/// Steps of a run. All of them make the same calls, at different times.
struct Workload {
  int ranks = 0;              ///< ranks of the run
  int ranks_per_machine = 0;  ///< ranks on each machine of the run
  double images = 0;          ///< images of one rank in one step; 0: unknown
  double measured_s = 0;      ///< median time of a step, including all waits
  double alone = 1;           ///< computation time of a rank alone on its machine, as a fraction of the measured time
  std::vector<MeasuredStep> steps = {};                ///< steps of all ranks
  std::vector<std::vector<std::int64_t>> shapes = {};  ///< shapes of the parameters; empty: unknown
};

/// Returns the gradient bytes of a step.
[[nodiscard]] std::int64_t gradient_bytes(const MeasuredStep& step);
/// Returns the bytes of each bucket of a step, in the order of reduction.
[[nodiscard]] std::vector<std::int64_t> bucket_bytes(const MeasuredStep& step);
/// Returns the median of the steps' computation time, in seconds. Requires a step.
[[nodiscard]] double median_compute_s(const Workload& workload);
/// Returns the value of Workload::alone for a machine on which a single rank, which copies no gradients into buckets,
/// took `alone_s` for a step. It is at most 1, because other ranks never make a rank faster. `copy_bytes_per_s` is the
/// memory copy rate; 0: copying takes no time. Requires a step.
[[nodiscard]] double alone_share(const Workload& workload, double alone_s, double copy_bytes_per_s);

}  // namespace lockstep::simulate

#pragma GCC visibility pop
