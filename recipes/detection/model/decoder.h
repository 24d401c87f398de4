// SPDX-License-Identifier: Apache-2.0
// The decoder: chooses queries among the encoder's positions and refines their boxes, as distributions over distances
// of the four sides, from layer to layer.
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
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"

namespace lockstep::detection {

/// Lets a query choose how much it takes of what it was and of what it saw: two learnt shares, then layer norm.
class Gate final : public torch::nn::Module {
 public:
  explicit Gate(std::int64_t hidden);
  at::Tensor forward(const at::Tensor& was, const at::Tensor& saw);

 private:
  nn::Linear gate_{nullptr};
  nn::LayerNorm norm_{nullptr};
};

/// Corrects a class logit by how sure the box's distributions are.
class QualityEstimator final : public torch::nn::Module {
 public:
  explicit QualityEstimator(const ModelOptions& options);
  /// Shapes: logits [B, Q, C], corners [B, Q, 4 R].
  at::Tensor forward(const at::Tensor& logits, const at::Tensor& corners);

 private:
  std::int64_t bins_;
  torch::nn::Sequential reg_conf_{nullptr};
};

/// What the queries look at.
struct Memory {
  at::Tensor tokens;  ///< [B, T, hidden]: the scales' positions one after another
  ScaleSizes sizes;
};

class DecoderLayer final : public torch::nn::Module {
 public:
  explicit DecoderLayer(const ModelOptions& options);
  /// Shapes: queries and positions [B, Q, hidden], boxes [B, Q, 4].
  at::Tensor forward(at::Tensor queries, const at::Tensor& positions, const at::Tensor& boxes, const Memory& memory,
                     const at::Tensor& mask);

 private:
  std::shared_ptr<SelfAttention> self_attn_;
  std::shared_ptr<DeformableAttention> cross_attn_;
  std::shared_ptr<Gate> gateway_;
  torch::nn::Sequential feedforward_{nullptr};
  nn::LayerNorm norm1_{nullptr};
  nn::LayerNorm norm3_{nullptr};
};

class Decoder final : public torch::nn::Module {
 public:
  explicit Decoder(const ModelOptions& options);
  /// `scales`: the encoder's. `denoising`: null for none.
  Outputs forward(const std::vector<at::Tensor>& scales, const Denoising* denoising);

 private:
  struct Queries;
  struct Refined;
  [[nodiscard]] static Memory flattened(const std::vector<at::Tensor>& scales);
  const at::Tensor& anchors(const ScaleSizes& sizes, const at::Device& device);
  Queries choose(const Memory& memory, Outputs& outputs);
  void add_dense(const Memory& memory, Outputs& outputs);
  void prepend(Queries& queries, const Denoising& denoising);
  Refined refine(const Queries& queries, const Memory& memory, const at::Tensor& mask);

  ModelOptions options_;
  torch::nn::Sequential enc_output_{nullptr};
  nn::Linear enc_score_head_{nullptr};
  torch::nn::Sequential enc_bbox_head_{nullptr};
  nn::Linear dense_head_{nullptr};  ///< class logits, then the box
  torch::nn::Embedding denoising_class_embed_{nullptr};
  torch::nn::Sequential query_pos_head_{nullptr};
  torch::nn::Sequential pre_bbox_head_{nullptr};
  std::vector<std::shared_ptr<DecoderLayer>> layers_;
  std::vector<nn::Linear> dec_score_head_;
  std::vector<torch::nn::Sequential> dec_bbox_head_;
  std::vector<std::shared_ptr<QualityEstimator>> lqe_;
  at::Tensor bins_;
  at::Tensor anchors_;  ///< before the sigmoid, of the last sizes
  ScaleSizes anchor_sizes_;
};

}  // namespace lockstep::detection
