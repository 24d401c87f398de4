// SPDX-License-Identifier: Apache-2.0
// One learnable scale and one learnable shift for a whole tensor.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// Returns scale * input + shift, in the input's type. libtorch's own product of bfloat16 and a float32 parameter would
/// be float32: twice the memory here and in every layer that follows.
///
/// On a CPU, float32 and bfloat16 take one pass in forward and one pass in backward. Backward also sums the gradients
/// of `scale` and `shift` in a fixed order: in float32 within blocks, then in double. libtorch handles all other cases.
///
/// Shapes: `scale` and `shift` float32 [1].
/// Throws: UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor scale_shift(const at::Tensor& input, const at::Tensor& scale, const at::Tensor& shift);

}  // namespace lockstep::nn

#pragma GCC visibility pop
