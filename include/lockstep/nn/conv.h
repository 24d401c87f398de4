// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolutions: libtorch's, and on a CPU Lockstep's own kernels if they are faster.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// torch::nn::Conv2d with the same options, initial weights and state dict; it pads with zeros.
///
/// On a CPU, with channels-last tensors, in float32 or under autocast to bfloat16, it has its own kernels:
/// - 3x3 with padding 1 and stride 1 from 1 channel (weights in channels-last, lockstep::use_channels_last; an input
///   that needs no gradient): a kernel whose forward runs at memory speed;
/// - the same convolution with 32 channels or more: Winograd's F(2x2, 3x3), forward and backward, with 4 products for
///   each 9 of the direct sum; in float32 with 16 channels or more F(4x4, 3x3), with 1 product for each 4. The error is
///   up to 4 times the direct sum's in float32 (about 1e-6), and up to 2.6 times in bfloat16. A pixel that is not
///   finite makes all results of the tiles that it touches NaN, up to 16 (64 in F(4x4, 3x3)) instead of 9. Numbers
///   above 1e36 overflow, instead of above 3.4e38;
/// - all other convolutions, including 1x1, strided and dilated ones: matrix products without copies, which skip the
///   zeros outside the image. float32 weights are cast while being packed, and their gradients are not rounded;
/// - depthwise convolutions (as many groups as channels, a multiple of 8): float32 sums, in one pass over memory. Other
/// grouped convolutions have no kernel. A table of shapes and processors (src/nn/conv/conv_table.h) chooses the kernel;
/// timing never does. All other cases use libtorch's convolution, in float32 if its bfloat16 is slow (nn/processor.h).
/// The kernels' results do not depend on the number of threads.
///
/// Shapes: [N, C, H, W] to [N, out, H', W'].
/// Throws: UsageError for a padding_mode other than zeros, and for a second derivative through a kernel.
/// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
class Conv2dImpl final : public torch::nn::Cloneable<Conv2dImpl> {
 public:
  explicit Conv2dImpl(const torch::nn::Conv2dOptions& conv_options);
  Conv2dImpl(std::int64_t in, std::int64_t out, torch::ExpandingArray<2> kernel)
      : Conv2dImpl(torch::nn::Conv2dOptions(in, out, kernel)) {}
  /// Creates a replacement for `conv` that has the same parameters.
  explicit Conv2dImpl(const torch::nn::Conv2dImpl& conv);

  /// Returns true if this convolution has a kernel for at least some image sizes.
  [[nodiscard]] static bool has_kernel(const torch::nn::Conv2dImpl& conv);

  void reset() override;
  /// Returns the convolution, as torch::nn::Conv2d does. Shapes: [N, C, H, W].
  at::Tensor forward(const at::Tensor& input);
  /// Returns the convolution without its bias, using libtorch, for a following layer that the bias would not affect.
  at::Tensor forward_without_bias(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::detail::ConvNdOptions<2> options;  ///< as in torch::nn::Conv2d
  at::Tensor weight;                            ///< [out, in / groups, rows, columns]
  at::Tensor bias;                              ///< [out], or undefined

 private:
  at::Tensor convolve_by_libtorch(const at::Tensor& images, const at::Tensor& filters, const at::Tensor& offsets);
  /// Convolves with libtorch; in float32 if libtorch's bfloat16 is slow.
  at::Tensor convolve(const at::Tensor& input);
  void take(const at::Tensor& new_weight, const at::Tensor& new_bias);

  bool has_kernel_ = false;
};
TORCH_MODULE(Conv2d);

}  // namespace lockstep::nn

#pragma GCC visibility pop
