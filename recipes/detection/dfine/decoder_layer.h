// SPDX-License-Identifier: Apache-2.0
// A layer of D-FINE's decoder.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <cstdint>
#include <memory>

#include "detection/dfine/layers.h"
#include "detection/dfine/options.h"
#include "detection/model/deformable.h"
#include "detection/model/refine.h"
#include "lockstep/nn/layer_norm.h"

namespace lockstep::detection::dfine {

/// Attention in which every query samples a few points of each scale around its box.
/// Source: Zhu et al., Deformable DETR, 2021.
class CrossAttention final : public torch::nn::Module {
 public:
  explicit CrossAttention(const Options& options);
  /// Shapes: queries [B, Q, hidden], boxes [B, Q, 4] (centre and size in 0..1).
  at::Tensor forward(const at::Tensor& queries, const at::Tensor& boxes, const Memory& memory);

 private:
  void reset_offsets(const Options& options);

  std::int64_t heads_;
  std::int64_t count_;  ///< number of points per head
  std::array<std::int64_t, 3> points_ = {};
  at::Tensor num_points_scale_;  ///< [P]: 1 divided by the scale's number of points
  torch::nn::Linear sampling_offsets_{nullptr};
  torch::nn::Linear attention_weights_{nullptr};
};

class DecoderLayer final : public torch::nn::Module {
 public:
  explicit DecoderLayer(const Options& options);
  /// Shapes: queries and positions [B, Q, hidden], boxes [B, Q, 4].
  at::Tensor forward(at::Tensor queries, const at::Tensor& positions, const at::Tensor& boxes, const Memory& memory,
                     const at::Tensor& mask);

 private:
  Activation activation_;
  std::shared_ptr<MultiheadAttention> self_attn_;
  nn::LayerNorm norm1_{nullptr};
  std::shared_ptr<CrossAttention> cross_attn_;
  std::shared_ptr<Gate<torch::nn::Linear>> gateway_;
  torch::nn::Linear linear1_{nullptr};
  torch::nn::Linear linear2_{nullptr};
  nn::LayerNorm norm3_{nullptr};
};

}  // namespace lockstep::detection::dfine
