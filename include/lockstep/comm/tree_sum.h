// SPDX-License-Identifier: Apache-2.0
// Adding up in tree order within one process: what a rank does with the values of its own replicas.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// A value and the replicas that it is the sum of: a whole subtree of tree(0, replicas).
struct PartialSum {
  at::Tensor value;
  ReplicaSpan span;
};

struct TreeOptions {
  ReduceOp op = ReduceOp::kSum;
  int divisor = 1;  ///< of kMean
};

/// Combines `parts`, from left to right the parts of one subtree, in tree order into `out`, which may be one of the
/// parts. The same bits as all_reduce over the same values.
///
/// Shapes: all on one device, dense, of one dtype and of out's sizes and strides.
/// Cost:   on the CPU each part is read once and `out` written once; elsewhere a pass for each addition.
/// Throws: UsageError for a dtype that all_reduce does not know.
void tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options = {});

/// What a rank brings to all_reduce over `replicas` replicas: `values` of those in `block`, one tensor each, as one row
/// for each of the block's whole subtrees.
///
/// Shapes: values of one shape and dtype, contiguous; result [whole subtrees, ...].
[[nodiscard]] at::Tensor partial_sums(const std::vector<at::Tensor>& values, ReplicaSpan block, int replicas,
                                      ReduceOp op = ReduceOp::kSum);

}  // namespace lockstep

#pragma GCC visibility pop
