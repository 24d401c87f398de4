// SPDX-License-Identifier: Apache-2.0
// A linear layer fused with dropout and ReLU: a matrix product, then one pass over it in each direction.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/modules/linear.h>

#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The operations after the linear layer.
struct LinearReLUOptions {
  double dropout = 0;  ///< probability of zeroing a value, before or after ReLU (same result); 0: no dropout
};

/// torch::nn::Linear, then Dropout and ReLU; the state dict is that of Linear.
///
/// On a CPU, with float32 or autocast to bfloat16, bias, dropout and ReLU take one pass over the product. Backward is
/// one pass, which also sums the gradient of the bias in a fixed order. All other cases fall back to libtorch's
/// separate layers.
///
/// Shapes: [..., in_features] to [..., out_features].
/// Cost:   backward keeps input, weight and output; the output is above 0 only for elements that dropout kept.
/// Throws: anything Linear throws; UsageError for a second derivative through the kernels.
class LinearReLUImpl final : public torch::nn::Cloneable<LinearReLUImpl> {
 public:
  /// Creates fresh weights, as torch::nn::Linear does.
  explicit LinearReLUImpl(const torch::nn::LinearOptions& linear, LinearReLUOptions then = {});
  /// Creates a replacement for `linear` that has the same parameters.
  LinearReLUImpl(const torch::nn::LinearImpl& linear, LinearReLUOptions then);

  void reset() override;
  /// Returns the layer's output after ReLU and dropout. Shapes: [..., in] to [..., out].
  at::Tensor forward(const at::Tensor& input);
  /// Returns the operations after the linear layer.
  [[nodiscard]] const LinearReLUOptions& then() const noexcept { return then_; }
  void pretty_print(std::ostream& stream) const override;

  torch::nn::LinearOptions options;  ///< as in torch::nn::Linear
  at::Tensor weight;                 ///< [out_features, in_features]
  at::Tensor bias;                   ///< [out_features], or undefined

 private:
  LinearReLUOptions then_;
};
TORCH_MODULE(LinearReLU);

}  // namespace lockstep::nn

#pragma GCC visibility pop
