// SPDX-License-Identifier: Apache-2.0
// Linear layers, computed by libtorch or, on a CPU, by Lockstep's own matrix products.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <ostream>

#pragma GCC visibility push(default)

namespace lockstep::nn {

/// Returns input * weight^T + bias, as at::linear does.
///
/// On a CPU with float32, or under autocast to bfloat16, it uses a custom kernel. It takes float32 weights and casts
/// them while packing, starts the sums with the bias, and returns a float32 weight gradient. Sums are in a fixed order,
/// on any number of threads. libtorch handles bfloat16 if the processor has matrix units or has no bfloat16 products,
/// or if a width is odd.
///
/// Shapes: input [..., in], weight [out, in] with any strides, bias [out] or undefined; the result [..., out].
/// Throws: anything at::linear throws; UsageError for a second derivative through the kernel.
[[nodiscard]] at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias = {});

/// torch::nn::Linear with the same options, initial weights and state dict, computed by linear().
///
/// Shapes: [..., in_features] to [..., out_features].
class LinearImpl final : public torch::nn::Cloneable<LinearImpl> {
 public:
  explicit LinearImpl(const torch::nn::LinearOptions& linear_options);
  LinearImpl(std::int64_t in, std::int64_t out) : LinearImpl(torch::nn::LinearOptions(in, out)) {}
  /// Creates a replacement for `layer` that has the same parameters.
  explicit LinearImpl(const torch::nn::LinearImpl& layer);

  void reset() override;
  /// Returns the layer's output. Shapes: [..., in] to [..., out].
  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::LinearOptions options;  ///< as in torch::nn::Linear
  at::Tensor weight;                 ///< [out_features, in_features]
  at::Tensor bias;                   ///< [out_features], or undefined
};
TORCH_MODULE(Linear);

}  // namespace lockstep::nn

#pragma GCC visibility pop
