// SPDX-License-Identifier: Apache-2.0
// Layer norm whose gradients are bit for bit the same on any number of threads.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/modules/normalization.h>

#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// torch::nn::LayerNorm with the same options and state dict.
///
/// On a CPU, with contiguous float32 or bfloat16 and float32 weights, it uses a custom kernel, otherwise libtorch's
/// layer.
///
/// Shapes: [..., normalized_shape]; the result has the same shape.
/// Cost:   forward and backward read the input once each; backward also keeps two float32 for each row.
/// Throws: anything torch::nn::LayerNorm throws; UsageError for a second derivative through the kernel.
/// Source: Ba et al., Layer Normalization, 2016.
class LayerNormImpl final : public torch::nn::Cloneable<LayerNormImpl> {
 public:
  explicit LayerNormImpl(const torch::nn::LayerNormOptions& layer);
  /// Creates a replacement for `layer` that has the same parameters.
  explicit LayerNormImpl(const torch::nn::LayerNormImpl& layer);

  void reset() override;
  /// Normalises over the last dimensions, as torch::nn::LayerNorm does.
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::LayerNormOptions options;  ///< as in torch::nn::LayerNorm
  at::Tensor weight;                    ///< has the normalised shape, or is undefined
  at::Tensor bias;                      ///< has the normalised shape, or is undefined
};
TORCH_MODULE(LayerNorm);

}  // namespace lockstep::nn

#pragma GCC visibility pop
