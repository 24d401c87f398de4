// SPDX-License-Identifier: Apache-2.0
// A linear layer fused with dropout and ReLU: the product is libtorch's, the rest is one pass each way.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <torch/nn/modules/linear.h>

#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// The operations after the linear layer.
struct LinearReLUOptions {
  double dropout = 0;  ///< probability of zero, before or after ReLU (the result is the same); 0: none
};

/// torch::nn::Linear, then Dropout and ReLU; the state dict is that of Linear.
///
/// On a CPU with float32 or autocast to bfloat16 the bias, dropout and ReLU are one pass over the product, and backward
/// one pass that also sums the bias's gradient, in a fixed order; in all other cases libtorch's separate layers run.
///
/// Shapes: [..., in_features] to [..., out_features].
/// Cost:   backward keeps input, weight and output; the output is above 0 only for elements that dropout kept.
/// Throws: the errors of Linear; UsageError for a second derivative through the kernels.
class LinearReLUImpl final : public torch::nn::Cloneable<LinearReLUImpl> {
 public:
  /// Makes fresh weights, as torch::nn::Linear does.
  explicit LinearReLUImpl(const torch::nn::LinearOptions& linear, LinearReLUOptions then = {});
  /// Replaces `linear`, with the same parameters.
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
