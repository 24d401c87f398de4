// SPDX-License-Identifier: Apache-2.0
// The mean of a sparse gradient (of an embedding) over all replicas. Rows are sent with their indices and added in tree
// order, so that the result has the same bits on any number of ranks.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/parallel/communication_hook.h"

namespace lockstep::parallel {

/// Some rows of a parameter, without duplicates, sorted by index.
struct SparseRows {
  at::Tensor indices;  ///< [n], int64
  at::Tensor values;   ///< [n, ...]
};

/// Adds the rows of `replicas`, which begins with replica 0, in the order of tree(lo, hi). A row that only one side has
/// is copied unchanged. Pure function. Shapes: values are float32 or float64.
[[nodiscard]] SparseRows sparse_tree_sum(const std::vector<SparseRows>& replicas, ReplicaSpan span);

/// The mean of one parameter's sparse gradients.
class SparseMean {
 public:
  /// `replicas` is the run's number of replicas; `block` holds the replicas of this rank.
  SparseMean(const at::Tensor& parameter, int replicas, ReplicaSpan block);

  /// Takes the gradient of the block's `local`-th replica: sparse, dense, or undefined, which counts as zero.
  /// Throws: UsageError for a gradient that is sparse in more than its first dimension.
  void put(int local, const at::Tensor& gradient);
  /// Returns the hook stage that reduces the gradient. Its collectives run in `then`.
  /// Lifetime: this object outlives the stage.
  [[nodiscard]] HookStage start(ProcessGroup& group);
  /// Returns the mean after the stage: sparse and coalesced, the same on every rank.
  [[nodiscard]] const at::Tensor& result() const { return result_; }
  /// Sets the divisor if ranks have run out of data; by default it is the number of replicas.
  void set_divisor(int divisor) { divisor_ = divisor; }

 private:
  void reduce(ProcessGroup& group);

  at::Tensor parameter_;
  int replicas_;
  ReplicaSpan block_;
  int divisor_;
  std::vector<SparseRows> rows_;  ///< rows of each local replica
  at::Tensor result_;
};

}  // namespace lockstep::parallel
