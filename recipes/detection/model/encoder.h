// SPDX-License-Identifier: Apache-2.0
// The hybrid encoder: a transformer on the coarsest scale, which has the fewest positions, then convolutions that carry
// features to the finer scales (top-down) and back (bottom-up).
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/model/layers.h"
#include "detection/model/model.h"
#include "lockstep/nn/layer_norm.h"

namespace lockstep::detection {

/// The sines and cosines of each position's column and row, [height * width, hidden]; hidden is a multiple of 4.
[[nodiscard]] at::Tensor sine_positions(std::int64_t height, std::int64_t width, std::int64_t hidden);

/// Attention and feed-forward, each followed by a residual connection and layer norm.
class EncoderLayer final : public torch::nn::Module {
 public:
  explicit EncoderLayer(const ModelOptions& options);
  at::Tensor forward(at::Tensor x_BNH, const at::Tensor& positions_NH);

 private:
  std::shared_ptr<SelfAttention> self_attn_;
  torch::nn::Sequential feedforward_{nullptr};
  nn::LayerNorm norm1_{nullptr};
  nn::LayerNorm norm2_{nullptr};
};

/// Fuses two concatenated scales into one: squeezes them, then combines the results of several 3x3 convolutions.
class FusionBlock final : public torch::nn::Module {
 public:
  explicit FusionBlock(const ModelOptions& options);
  at::Tensor forward(const at::Tensor& fine, const at::Tensor& coarse);

 private:
  torch::nn::Sequential squeeze_{nullptr};
  std::vector<torch::nn::Sequential> convs_;
  torch::nn::Sequential out_{nullptr};
};

class Encoder final : public torch::nn::Module {
 public:
  explicit Encoder(const ModelOptions& options);
  /// Maps three scales with the backbone's channels to three with `hidden` channels, finest first.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& scales);

 private:
  at::Tensor attend(const at::Tensor& coarsest);

  std::int64_t hidden_;
  std::vector<torch::nn::Sequential> input_proj_;
  std::vector<std::shared_ptr<EncoderLayer>> layers_;
  std::vector<torch::nn::Sequential> lateral_;
  std::vector<std::shared_ptr<FusionBlock>> top_down_;
  std::vector<torch::nn::Sequential> downsample_;
  std::vector<std::shared_ptr<FusionBlock>> bottom_up_;
  at::Tensor positions_;  ///< positions for the last size
  std::int64_t height_ = 0;
  std::int64_t width_ = 0;
};

}  // namespace lockstep::detection
