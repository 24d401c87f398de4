// SPDX-License-Identifier: Apache-2.0
// tree_sum() with libtorch's operations: for tensors of any device, one pass over memory for each addition.
#pragma once

#include <vector>

#include "lockstep/comm/tree_sum.h"

namespace lockstep::comm {

/// Does the same as tree_sum(), with the same bits for sums and means of floating-point tensors and for minima, maxima
/// and products.
/// Throws: UsageError for a bitwise operation.
void tensor_tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options);

/// Returns the divisor of a mean of `values`, in the form that gives the bits of a division: on CUDA libtorch
/// multiplies by the inverse of a number on the host. Shapes: the result has no dimension.
[[nodiscard]] at::Tensor divisor_tensor(const at::Tensor& values, int divisor);

}  // namespace lockstep::comm
