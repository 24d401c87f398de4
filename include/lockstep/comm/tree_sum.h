// SPDX-License-Identifier: Apache-2.0
// Adds the values of a rank's own replicas in tree order, within one process.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A value and the replicas in its sum: a whole subtree of tree(0, replicas).
struct PartialSum {
  at::Tensor value;  ///< the sum
  ReplicaSpan span;  ///< the replicas in the sum
};

/// The options of tree_sum().
struct TreeOptions {
  ReduceOp op = ReduceOp::kSum;  ///< the operation
  int divisor = 1;               ///< the divisor of kMean
};

/// Combines `parts` in tree order into `out`, which may be one of the parts. The parts are in order from left to right
/// and make up one subtree. The result has the same bits as all_reduce over the same values.
///
/// Shapes: all tensors are dense and on one device, with one dtype and out's sizes and strides.
/// Cost:   on the CPU each part is read once and `out` written once; elsewhere each addition is one pass.
/// Throws: UsageError for a dtype that all_reduce does not support.
void tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options = {});

/// Builds a rank's argument for all_reduce over `replicas` replicas. `values` holds one tensor for each replica of
/// `block`; the result has one row for each whole subtree of the block.
///
/// Shapes: values have one shape and dtype and are contiguous; the result is [whole subtrees, ...]. Its dtype is that
///         of the values, or float32 if they are float16 or bfloat16: if each rank rounded its own sums, the bits would
///         depend on the world size. Round the result of all_reduce.
[[nodiscard]] at::Tensor partial_sums(const std::vector<at::Tensor>& values, ReplicaSpan block, int replicas,
                                      ReduceOp op = ReduceOp::kSum);

}  // namespace lockstep

#pragma GCC visibility pop
