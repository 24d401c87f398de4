// SPDX-License-Identifier: Apache-2.0
// Resizes images.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// Resizes images with bilinear interpolation, as at::upsample_bilinear2d does.
///
/// On a CPU, channels-last float32 and bfloat16 with a multiple of 8 channels have a kernel: one pass in forward and
/// one in backward, with float32 in between. The result has the input's type (libtorch's is float32 under autocast). It
/// is bit-identical for any number of threads. libtorch handles all other cases.
///
/// Shapes: [N, C, H, W] to [N, C, size[0], size[1]].
/// Throws: anything at::upsample_bilinear2d throws; UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor resize_bilinear(const at::Tensor& images, const std::array<std::int64_t, 2>& size,
                                         bool align_corners);

/// Resizes images with nearest-neighbour interpolation, as at::upsample_nearest2d does, with the same kernel and for
/// the same tensors. In the kernel an infinite pixel becomes NaN.
///
/// Shapes: [N, C, H, W] to [N, C, size[0], size[1]].
/// Throws: anything at::upsample_nearest2d throws; UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor resize_nearest(const at::Tensor& images, const std::array<std::int64_t, 2>& size);

}  // namespace lockstep::nn

#pragma GCC visibility pop
