// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer by our kernels (nn/conv/direct.h).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

namespace lockstep::nn::detail {

/// Whether the functions below take rows of that type and float32 weights [out, in].
[[nodiscard]] bool has_linear_product(at::ScalarType type, const at::Tensor& weight);

/// `rows` [..., in], contiguous; `bias` float32 [out], contiguous, or undefined. Returns [..., out] of the rows' type.
[[nodiscard]] at::Tensor linear_product(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias);
/// `grad` [..., out], contiguous, to [..., in] of its type.
[[nodiscard]] at::Tensor linear_input_gradient(const at::Tensor& grad, const at::Tensor& weight);
/// Both contiguous and of one type; the result is float32, of `weight`'s layout.
[[nodiscard]] at::Tensor linear_weight_gradient(const at::Tensor& grad, const at::Tensor& rows,
                                                const at::Tensor& weight);

}  // namespace lockstep::nn::detail
