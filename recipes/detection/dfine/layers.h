// SPDX-License-Identifier: Apache-2.0
// Layers of the published network, with the names of the original state dict. Chains are torch::nn::Sequential with
// named entries, so that nn::optimize() and fuse() find them.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/cloneable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "detection/model/layers.h"

namespace lockstep::detection::dfine {

enum class Activation { kNone, kRelu, kSilu };

/// Throws: UsageError for any name other than relu and silu.
[[nodiscard]] Activation activation_from_name(const std::string& name);
[[nodiscard]] at::Tensor activated(const at::Tensor& x, Activation activation);

/// Batch norm with constant mean, variance, scale and shift: all four are buffers.
class FrozenBatchNorm2dImpl final : public torch::nn::Cloneable<FrozenBatchNorm2dImpl> {
 public:
  explicit FrozenBatchNorm2dImpl(std::int64_t channels) : channels_(channels) {
    reset();  // NOLINT(clang-analyzer-optin.cplusplus.VirtualCall)
  }
  void reset() override;
  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;

 private:
  std::int64_t channels_;
};
TORCH_MODULE(FrozenBatchNorm2d);

/// A torch::nn::Sequential that can be nested in another Sequential.
class ChainImpl final : public torch::nn::SequentialImpl {
 public:
  using SequentialImpl::SequentialImpl;
  at::Tensor forward(const at::Tensor& x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Chain);

/// Registers `items` under `name` as a list whose entries are named by number.
template <class Items>
void register_list(torch::nn::Module& module, const char* name, const Items& items) {
  torch::nn::ModuleList list;
  for (const auto& item : items) list->push_back(item);
  module.register_module(name, list);
}

/// The layers after a backbone convolution.
struct BackboneLayer {
  bool relu = true;
  bool lab = false;     ///< a learnable scale and bias after the ReLU
  bool frozen = false;  ///< a FrozenBatchNorm2d in place of a BatchNorm2d
};

/// Returns a chain with the entries "conv", "bn", "act" and "lab". Padding is (kernel - 1) / 2, rounded down.
[[nodiscard]] Chain conv_bn_act(std::int64_t in, std::int64_t out, ConvShape shape, const BackboneLayer& layer);
/// Returns a chain with the entries "conv", "norm" and "act".
[[nodiscard]] Chain conv_norm_act(std::int64_t in, std::int64_t out, ConvShape shape = {},
                                  Activation activation = Activation::kNone);

/// Linear layers of these widths under "layers", with an activation between them.
class Mlp final : public torch::nn::Module {
 public:
  Mlp(const std::vector<std::int64_t>& widths, Activation activation);
  at::Tensor forward(at::Tensor x);
  [[nodiscard]] torch::nn::LinearImpl& last() { return *layers_.back(); }
  [[nodiscard]] torch::nn::LinearImpl& at(std::size_t index) { return *layers_.at(index); }

 private:
  std::vector<torch::nn::Linear> layers_;
  Activation activation_;
};

/// Multi-head attention over one sequence, with the state dict of torch.nn.MultiheadAttention.
class MultiheadAttention final : public torch::nn::Module {
 public:
  MultiheadAttention(std::int64_t hidden, std::int64_t heads);

  /// `mask` [B or 1, 1, N, N] is added to the scores; undefined means no mask. Positions are not added to the values.
  /// Shapes: x [B, N, hidden], positions the same or [N, hidden].
  at::Tensor forward(const at::Tensor& x_BNH, const at::Tensor& positions, const at::Tensor& mask = {});

 private:
  std::int64_t heads_;
  at::Tensor in_proj_weight_;  ///< [3 hidden, hidden]: for queries, keys, values
  at::Tensor in_proj_bias_;
  torch::nn::Linear out_proj_{nullptr};
};

}  // namespace lockstep::detection::dfine
