// SPDX-License-Identifier: Apache-2.0
// Runs the products of direct.h on tensors, in parallel, for convolutions and linear layers.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nn/conv/conv_functions.h"
#include "nn/conv/direct.h"

namespace lockstep::nn {

/// Describes the convolution of `input` [N, in, H, W] by `weight` [out, in, rows, columns].
[[nodiscard]] DirectConv direct_shape(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& geometry);

/// Describes the layout of `weight`, float32 [out, in, rows, columns]; taps are equally far apart in both layouts.
[[nodiscard]] DirectWeights direct_weights(const at::Tensor& weight);

/// Runs `plan` on `input`'s dense pixels, float32 or bfloat16, into `out`, and returns it. `bias`: [out], or null.
at::Tensor run_direct(const DirectPlan& plan, const at::Tensor& input, const DirectWeights& weights, const float* bias,
                      at::Tensor out);

/// Returns the gradient of `weight`, in the layout of `weight`. `grad` is dense and has the input's type.
[[nodiscard]] at::Tensor direct_weight_gradient(const DirectConv& conv, const at::Tensor& input, const at::Tensor& grad,
                                                const at::Tensor& weight);

/// Sums the columns of `grad` [..., channels], in memory order: in float32 within each of `blocks` blocks of rows, then
/// in double over the blocks.
[[nodiscard]] at::Tensor direct_bias_gradient(const at::Tensor& grad, std::int64_t channels, std::int64_t blocks);

}  // namespace lockstep::nn
