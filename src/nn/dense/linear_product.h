// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer, computed by Lockstep's kernels (nn/conv/direct.h).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

namespace lockstep::nn::detail {

/// True if the functions below accept rows of this `type` and these weights, which must be float32 [out, in].
[[nodiscard]] bool has_linear_product(at::ScalarType type, const at::Tensor& weight);

/// Returns [..., out] in the type of `rows`. `rows` [..., in] and `bias`, float32 [out] or undefined, are contiguous.
[[nodiscard]] at::Tensor linear_product(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias);
/// Returns the gradient of the input, [..., in], in the type of `grad`, which is [..., out] and contiguous.
[[nodiscard]] at::Tensor linear_input_gradient(const at::Tensor& grad, const at::Tensor& weight);
/// Returns the gradient of the weight in float32, in the layout of `weight`. `grad` and `rows` are contiguous and of
/// the same type.
[[nodiscard]] at::Tensor linear_weight_gradient(const at::Tensor& grad, const at::Tensor& rows,
                                                const at::Tensor& weight);

}  // namespace lockstep::nn::detail
