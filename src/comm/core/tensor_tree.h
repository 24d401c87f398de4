// SPDX-License-Identifier: Apache-2.0
// tree_sum() by libtorch's own operations: for tensors of any device, one pass over memory for each addition.
#pragma once

#include <vector>

#include "lockstep/comm/tree_sum.h"

namespace lockstep::comm {

/// Does the same as tree_sum(), with the same bits for sums and means of floating-point tensors and for minima, maxima
/// and products.
/// Throws: UsageError for a bitwise operation.
void tensor_tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options);

/// Returns what a mean of `values` divides by, so that the bits are those of a division: on CUDA libtorch multiplies by
/// the inverse of a number that lies on the host. Shapes: the result has no dimension.
[[nodiscard]] at::Tensor divisor_tensor(const at::Tensor& values, int divisor);

}  // namespace lockstep::comm
