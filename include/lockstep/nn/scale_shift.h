// SPDX-License-Identifier: Apache-2.0
// One learnable scale and one shift for a whole tensor.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// Returns scale * input + shift, of the input's type. libtorch's own product of bfloat16 and a float32 parameter would
/// be float32: twice the memory here and in every layer that follows.
///
/// On a CPU float32 and bfloat16 take one pass in forward and one in backward, which also sums the gradients of both
/// numbers: in float32 within blocks, over blocks in double, in a fixed order. libtorch computes all other cases.
///
/// Shapes: `scale` and `shift` float32 [1].
/// Throws: UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor scale_shift(const at::Tensor& input, const at::Tensor& scale, const at::Tensor& shift);

}  // namespace lockstep::nn

#pragma GCC visibility pop
