// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolutions: libtorch's, and on a CPU Lockstep's own kernels if they are faster.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// torch::nn::Conv2d with the same options, initial weights and state dict; it pads with zeros.
///
/// On a CPU, float32 or under autocast to bfloat16, in channels-last, it has its own kernels:
/// - 3x3 with padding 1 and stride 1 from 1 channel (weights in channels-last, lockstep::use_channels_last; an input
///   that needs no gradient), at memory speed, forward only;
/// - the same from 32 channels on: Winograd's F(2x2, 3x3), forward and backward, with 4 products instead of the direct
///   sum's 9; in float32 from 16 channels on F(4x4, 3x3), with 1 instead of 4. The error is up to 4 times the direct
///   sum's in float32 (some 1e-6), and up to 2.6 times in bfloat16. A pixel that is not finite spoils all results of
///   the tiles that it touches, up to 16 (64 in F(4x4, 3x3)) instead of 9. The sums overflow from numbers of 1e36 on,
///   instead of 3.4e38;
/// - all others, 1x1, strided and dilated ones: products of matrices without copies, which skip the zeros outside the
///   image. float32 weights are cast while they are packed, and their gradients are not rounded;
/// - depthwise ones (as many groups as channels, a multiple of 8): computed in float32, in one pass over memory.
/// Other groups have no kernel. A table of shapes and processors (src/nn/conv/conv_table.h) chooses the kernel, never
/// timing; all other cases run libtorch's, bit for bit. The kernels' results do not depend on the number of threads.
///
/// Shapes: [N, C, H, W] to [N, out, H', W'].
/// Throws: UsageError for a padding_mode other than zeros, and for a second derivative through a kernel.
/// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
class Conv2dImpl final : public torch::nn::Cloneable<Conv2dImpl> {
 public:
  explicit Conv2dImpl(const torch::nn::Conv2dOptions& conv_options);
  Conv2dImpl(std::int64_t in, std::int64_t out, torch::ExpandingArray<2> kernel)
      : Conv2dImpl(torch::nn::Conv2dOptions(in, out, kernel)) {}
  /// Replaces `conv`, with the same parameters.
  explicit Conv2dImpl(const torch::nn::Conv2dImpl& conv);

  /// Returns true if kernels exist for such a convolution, whatever the size of its images.
  [[nodiscard]] static bool has_kernel(const torch::nn::Conv2dImpl& conv);

  void reset() override;
  /// Returns the convolution, as torch::nn::Conv2d does. Shapes: [N, C, H, W].
  at::Tensor forward(const at::Tensor& input);
  /// Returns it without the bias, by libtorch, for a following layer that the bias would not change.
  at::Tensor forward_without_bias(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::detail::ConvNdOptions<2> options;  ///< as in torch::nn::Conv2d
  at::Tensor weight;                            ///< [out, in / groups, rows, columns]
  at::Tensor bias;                              ///< [out], or undefined

 private:
  at::Tensor convolve_by_libtorch(const at::Tensor& images, const at::Tensor& filters, const at::Tensor& offsets);
  /// Convolves by libtorch.
  at::Tensor convolve(const at::Tensor& input);
  void take(const at::Tensor& new_weight, const at::Tensor& new_bias);

  bool has_kernel_ = false;
};
TORCH_MODULE(Conv2d);

}  // namespace lockstep::nn

#pragma GCC visibility pop
