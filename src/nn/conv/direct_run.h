// SPDX-License-Identifier: Apache-2.0
// The products of direct.h over tensors: pieces in parallel. What convolutions and linear layers share.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "nn/conv/conv_functions.h"
#include "nn/conv/direct.h"

namespace lockstep::nn {

/// The convolution of `input` [N, in, H, W] by `weight` [out, in, rows, columns].
[[nodiscard]] DirectConv direct_shape(const at::Tensor& input, const at::Tensor& weight, const ConvGeometry& geometry);

/// Where the filters of `weight`, float32 [out, in, rows, columns], lie; taps have one distance in either layout.
[[nodiscard]] DirectWeights direct_weights(const at::Tensor& weight);

/// What `plan` makes of `input`'s dense pixels, float32 or bfloat16, in `out`, which is returned. `bias`: [out], or
/// null.
at::Tensor run_direct(const DirectPlan& plan, const at::Tensor& input, const DirectWeights& weights, const float* bias,
                      at::Tensor out);

/// The gradient of `weight`, in its layout. `grad` is dense and of the input's type.
[[nodiscard]] at::Tensor direct_weight_gradient(const DirectConv& conv, const at::Tensor& input, const at::Tensor& grad,
                                                const at::Tensor& weight);

/// The sums of the columns of `grad` [..., channels], in memory order: in float32 within one of `blocks` blocks of
/// rows, over them in double.
[[nodiscard]] at::Tensor direct_bias_gradient(const at::Tensor& grad, std::int64_t channels, std::int64_t blocks);

}  // namespace lockstep::nn
