// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer by our kernels (nn/conv/direct.h).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

namespace lockstep::nn::detail {

/// True if the functions below accept rows of that type and float32 weights [out, in].
[[nodiscard]] bool has_linear_product(at::ScalarType type, const at::Tensor& weight);

/// Returns [..., out] of the rows' type. `rows` [..., in], contiguous; `bias` float32 [out], contiguous, or undefined.
[[nodiscard]] at::Tensor linear_product(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias);
/// Returns [..., in] from `grad` [..., out], contiguous, and in its type.
[[nodiscard]] at::Tensor linear_input_gradient(const at::Tensor& grad, const at::Tensor& weight);
/// Returns the gradient in float32, in `weight`'s layout. `grad` and `rows`: contiguous and of one type.
[[nodiscard]] at::Tensor linear_weight_gradient(const at::Tensor& grad, const at::Tensor& rows,
                                                const at::Tensor& weight);

}  // namespace lockstep::nn::detail
