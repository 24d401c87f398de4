// SPDX-License-Identifier: Apache-2.0
// tree_sum() with libtorch's operations, for tensors on any device. Each addition is one pass over memory.
#pragma once

#include <vector>

#include "lockstep/comm/tree_sum.h"

namespace lockstep::comm {

/// Does the same as tree_sum(), bit for bit for minima, maxima, products, and sums and means of floating-point tensors.
/// Throws: UsageError for a bitwise operation.
void tensor_tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options);

/// Returns the divisor of a mean of `values` as a tensor that gives the exact bits of a division: on CUDA libtorch
/// multiplies by the inverse if the divisor is a host number. Shapes: the result has no dimensions.
[[nodiscard]] at::Tensor divisor_tensor(const at::Tensor& values, int divisor);

}  // namespace lockstep::comm
