// SPDX-License-Identifier: Apache-2.0
// How far two tensors are apart: first their bits, then numbers for a person.
#pragma once

#include <optional>

#include "lockstep/checkpoint/diff.h"

namespace lockstep::checkpoint {

/// Compares two tensors; returns none where all bits are equal. Both are row-major on the CPU and have one dtype and
/// shape. The caller fills in `name` and `type` of the result.
[[nodiscard]] std::optional<TensorDifference> compare_tensors(const at::Tensor& a, const at::Tensor& b);

}  // namespace lockstep::checkpoint
