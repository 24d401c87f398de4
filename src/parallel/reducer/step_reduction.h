// SPDX-License-Identifier: Apache-2.0
// One step's reduction over all replicas: from the first bucket that takes a gradient to grad() on every rank.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <cstddef>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/reducer/gradients.h"

namespace lockstep::parallel {

/// The reductions of successive steps. A step begins with the backward of a rank's last replica and ends when grad()
/// holds the mean. After the first step the buckets follow the order in which gradients arrived, as in PyTorch. Not
/// thread-safe: the Reducer calls it under its mutex.
class StepReduction {
 public:
  StepReduction(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options,
                const ReplicaLayout& layout);

  /// Begins a step. The sums are divided by `divisor`, or by the number of replicas if it is 0.
  void begin(int divisor);
  /// Takes the gradient of the block's `local`-th replica, which is complete in grad().
  void contribute(std::size_t index, int local);
  /// Records that this backward has no gradient for the parameter.
  void contribute_unused(std::size_t index, int local);
  /// Records that a replica of this rank got a gradient for the parameter.
  void note_used(std::size_t index) { used_[index] = true; }
  /// Waits for the reductions and leaves their results in grad(). Collective: yes.
  void end();
  /// Runs a step on a rank without data, with zeros for every parameter. Collective: yes.
  void shadow(int divisor);

  /// Returns true while grad() holds a step's result, which belongs to no single replica.
  [[nodiscard]] bool holds_result() const { return reduced_; }
  void forget_result() { reduced_ = false; }

  /// See Reducer::shard_gradients().
  void shard(bool on);
  /// See DistributedDataParallel::grad_norm().
  [[nodiscard]] double norm() const;

  [[nodiscard]] Gradients& gradients() { return gradients_; }
  [[nodiscard]] const Gradients& gradients() const { return gradients_; }

 private:
  [[nodiscard]] std::vector<bool> used_anywhere();
  void settle();

  ProcessGroup& group_;
  DdpOptions options_;
  ReplicaLayout layout_;
  Gradients gradients_;
  bool settled_ = false;     ///< the buckets are final: the first step is over
  bool keeps_plan_ = false;  ///< the first bucket plan is kept
  bool sharded_ = false;
  bool reduced_ = false;
  std::vector<std::size_t> arrival_order_;
  std::vector<bool> used_;            ///< true for each parameter used since the last step
  std::vector<bool> used_in_static_;  ///< true for each parameter used on any rank, once the static graph is known
};

}  // namespace lockstep::parallel
