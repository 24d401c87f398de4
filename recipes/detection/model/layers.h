// SPDX-License-Identifier: Apache-2.0
// Layers shared by several parts of the network. Chains are torch::nn::Sequential, so that nn::optimize() finds them.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/cloneable.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"

namespace lockstep::detection {

struct ConvShape {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t groups = 1;
};

/// Appends a convolution without bias, which keeps the size except for its stride, and batch norm; the second function
/// also appends ReLU.
void add_conv_norm(torch::nn::Sequential& to, std::int64_t in, std::int64_t out, ConvShape shape = {});
void add_conv_norm_relu(torch::nn::Sequential& to, std::int64_t in, std::int64_t out, ConvShape shape = {});
[[nodiscard]] torch::nn::Sequential conv_norm_relu(std::int64_t in, std::int64_t out, ConvShape shape = {});

/// Linear layers of these widths, with ReLU between them.
[[nodiscard]] torch::nn::Sequential mlp(const std::vector<std::int64_t>& widths);
/// The last layer of an mlp().
[[nodiscard]] torch::nn::LinearImpl& last_layer(const torch::nn::Sequential& layers);

[[nodiscard]] nn::LayerNorm layer_norm(std::int64_t hidden);
/// Zeroes a layer's parameters: its output is 0 until it has learned.
template <class Layer>
void start_at_zero(Layer& layer) {
  torch::nn::init::zeros_(layer.weight);
  torch::nn::init::zeros_(layer.bias);
}
/// The logit of the probability that a newly initialised score head outputs. It is low because objects are rare.
extern const double kPriorLogit;

/// Multi-head attention over one sequence.
class SelfAttention final : public torch::nn::Module {
 public:
  SelfAttention(std::int64_t hidden, std::int64_t heads);

  /// `mask` is added to the scores: 0 or a very low number, [B or 1, 1, N, N]; undefined means no mask.
  /// Shapes: x and positions [B, N, hidden] (positions may be [N, hidden]). Positions are not added to the values.
  at::Tensor forward(const at::Tensor& x_BNH, const at::Tensor& positions, const at::Tensor& mask = {});

 private:
  std::int64_t heads_;
  nn::Linear query_key_{nullptr};
  nn::Linear value_{nullptr};
  nn::Linear out_proj_{nullptr};
};

/// Computes scale * x + bias with scalar parameters.
/// Cost: one pass over memory in forward and in backward.
class LabImpl final : public torch::nn::Cloneable<LabImpl> {
 public:
  LabImpl() { reset(); }  // NOLINT(clang-analyzer-optin.cplusplus.VirtualCall)
  void reset() override;
  at::Tensor forward(const at::Tensor& input);

  at::Tensor scale;
  at::Tensor bias;
};
TORCH_MODULE(Lab);

}  // namespace lockstep::detection
