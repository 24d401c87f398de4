// SPDX-License-Identifier: Apache-2.0
// How far two tensors are apart: first their bits, then numbers for a person.
#pragma once

#include <optional>

#include "lockstep/checkpoint/diff.h"

namespace lockstep::checkpoint {

/// None where all bits are equal. Both are row-major on the CPU and of one dtype and shape; `name` and `type` of what
/// is returned are left to the caller.
[[nodiscard]] std::optional<TensorDifference> compare_tensors(const at::Tensor& a, const at::Tensor& b);

}  // namespace lockstep::checkpoint
