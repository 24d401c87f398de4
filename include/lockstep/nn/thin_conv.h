// SPDX-License-Identifier: Apache-2.0
// The convolution of grey images: from one channel to many, at the speed of memory on a processor.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <ostream>

namespace lockstep::nn {

/// torch::nn::Conv2d from 1 channel, 3x3, padding 1, stride 1, with bias; the same state dict.
///
/// On a CPU with channels-last weights (lockstep::use_channels_last), float32 or autocast to bfloat16, a multiple of 8
/// channels and an input that needs no gradient, the forward is a kernel of its own; all else is libtorch's.
///
/// Shapes: [N, 1, H, W] to [N, C, H, W], channels-last.
/// Throws: UsageError for a second derivative through the kernel.
class ThinConv2dImpl final : public torch::nn::Cloneable<ThinConv2dImpl> {
 public:
  /// With fresh weights, as torch::nn::Conv2d's.
  explicit ThinConv2dImpl(std::int64_t channels);
  /// Takes the place of `conv` with the same parameters. Such a one: see is_thin().
  explicit ThinConv2dImpl(const torch::nn::Conv2dImpl& conv);

  [[nodiscard]] static bool is_thin(const torch::nn::Conv2dImpl& conv);

  void reset() override;
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  at::Tensor weight;  ///< [C, 1, 3, 3]
  at::Tensor bias;    ///< [C]

 private:
  std::int64_t channels_;
};
TORCH_MODULE(ThinConv2d);

}  // namespace lockstep::nn
