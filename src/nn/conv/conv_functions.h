// SPDX-License-Identifier: Apache-2.0
// The kernels of nn::Conv2d as autograd functions.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::nn {

/// Convolves from 1 channel: `input` [N, 1, H, W] of float32 or bfloat16, `weight` [C, 1, 3, 3], `bias` [C] of float32.
[[nodiscard]] at::Tensor thin_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);

/// Convolves by Winograd: `input` [N, in, H, W], channels-last, of float32 or bfloat16; `weight` [out, in, 3, 3],
/// `bias` [out] or undefined, of float32. `tile` is the number of results along a tile's side: 2, or 4 (only in
/// float32).
[[nodiscard]] at::Tensor winograd_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                              std::int64_t tile);

/// The stride, padding and dilation of a convolution, for rows and columns.
struct ConvGeometry {
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> padding = {0, 0};
  std::array<std::int64_t, 2> dilation = {1, 1};

  [[nodiscard]] std::vector<std::int64_t> numbers() const;
  [[nodiscard]] static ConvGeometry from(const std::vector<std::int64_t>& numbers);
};

/// Convolves in one group, with any kernel size: `input` [N, in, H, W], channels-last, of float32 or bfloat16; `weight`
/// [out, in, rows, columns], `bias` [out] or undefined, of float32.
[[nodiscard]] at::Tensor direct_convolution(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                                            const ConvGeometry& geometry);

/// Convolves each channel separately: `input` [N, C, H, W] as above, C a multiple of 8; `weight` [C, 1, rows, columns].
[[nodiscard]] at::Tensor depthwise_convolution(const at::Tensor& input, const at::Tensor& weight,
                                               const at::Tensor& bias, const ConvGeometry& geometry);

/// Throws: UsageError if backward itself is to be differentiated.
void refuse_second_derivative();

}  // namespace lockstep::nn
