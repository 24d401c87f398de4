// SPDX-License-Identifier: Apache-2.0
// The decoder: chooses queries among the encoder's positions and refines their boxes from layer to layer, as
// distributions over the distances of the four sides.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "detection/model/deformable.h"
#include "detection/model/denoising.h"
#include "detection/model/layers.h"
#include "detection/model/model.h"
#include "detection/model/refine.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"

namespace lockstep::detection {

class DecoderLayer final : public torch::nn::Module {
 public:
  explicit DecoderLayer(const ModelOptions& options);
  /// Shapes: queries and positions [B, Q, hidden], boxes [B, Q, 4].
  at::Tensor forward(at::Tensor queries, const at::Tensor& positions, const at::Tensor& boxes, const Memory& memory,
                     const at::Tensor& mask);

 private:
  std::shared_ptr<SelfAttention> self_attn_;
  std::shared_ptr<DeformableAttention> cross_attn_;
  std::shared_ptr<Gate<nn::Linear>> gateway_;
  torch::nn::Sequential feedforward_{nullptr};
  nn::LayerNorm norm1_{nullptr};
  nn::LayerNorm norm3_{nullptr};
};

class Decoder final : public torch::nn::Module {
 public:
  explicit Decoder(const ModelOptions& options);
  /// `scales`: the encoder's outputs. `denoising` may be null.
  Outputs forward(const std::vector<at::Tensor>& scales, const Denoising* denoising);

 private:
  const at::Tensor& anchors(const ScaleSizes& sizes, const at::Device& device);
  Queries choose(const Memory& memory, Outputs& outputs);
  void add_dense(const Memory& memory, Outputs& outputs);
  void prepend(Queries& queries, const Denoising& denoising);

  ModelOptions options_;
  torch::nn::Sequential enc_output_{nullptr};
  nn::Linear enc_score_head_{nullptr};
  torch::nn::Sequential enc_bbox_head_{nullptr};
  nn::Linear dense_head_{nullptr};  ///< dense predictions: class logits, then the box
  torch::nn::Embedding denoising_class_embed_{nullptr};
  struct Heads {
    torch::nn::Sequential query_pos_head{nullptr};
    torch::nn::Sequential pre_bbox_head{nullptr};
    std::vector<std::shared_ptr<DecoderLayer>> layers;
    std::vector<nn::Linear> score_heads;
    std::vector<torch::nn::Sequential> box_heads;
    std::vector<std::shared_ptr<QualityEstimator<torch::nn::Sequential>>> quality;
  } heads_;
  at::Tensor bins_;
  at::Tensor anchors_;  ///< anchors for the last sizes, before the sigmoid
  ScaleSizes anchor_sizes_;
};

}  // namespace lockstep::detection
