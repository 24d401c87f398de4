// SPDX-License-Identifier: Apache-2.0
#include "detection/model/decoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/meshgrid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>
#include <torch/nn/init.h>

#include <cmath>

#include "detection/model/box.h"
#include "detection/model/dense.h"

namespace lockstep::detection {
namespace {

nn::Linear score_head(const ModelOptions& options) {
  nn::Linear head(options.hidden, options.classes);
  torch::nn::init::constant_(head->bias, kPriorLogit);
  return head;
}

/// A box head that initially leaves the boxes unchanged.
torch::nn::Sequential box_head(const ModelOptions& options, std::int64_t out) {
  torch::nn::Sequential head = mlp({options.hidden, options.hidden, options.hidden, out});
  start_at_zero(last_layer(head));
  return head;
}

std::shared_ptr<QualityEstimator<torch::nn::Sequential>> quality_estimator(const ModelOptions& options) {
  using Quality = QualityEstimator<torch::nn::Sequential>;
  torch::nn::Sequential head = mlp(Quality::widths());
  start_at_zero(last_layer(head));
  return std::make_shared<Quality>(options.reg_max + 1, head);
}

}  // namespace

DecoderLayer::DecoderLayer(const ModelOptions& options)
    : self_attn_(register_module("self_attn", std::make_shared<SelfAttention>(options.hidden, options.heads))),
      cross_attn_(register_module("cross_attn", std::make_shared<DeformableAttention>(options))),
      gateway_(register_module("gateway", std::make_shared<Gate<nn::Linear>>(options.hidden))),
      feedforward_(register_module("feedforward", mlp({options.hidden, options.decoder_feedforward, options.hidden}))),
      norm1_(register_module("norm1", layer_norm(options.hidden))),
      norm3_(register_module("norm3", layer_norm(options.hidden))) {}

at::Tensor DecoderLayer::forward(at::Tensor queries, const at::Tensor& positions, const at::Tensor& boxes,
                                 const Memory& memory, const at::Tensor& mask) {
  queries = norm1_->forward(queries + self_attn_->forward(queries, positions, mask));
  const at::Tensor saw = cross_attn_->forward(queries + positions, boxes, memory.tokens, memory.sizes);
  queries = gateway_->forward(queries, saw);
  return norm3_->forward(queries + feedforward_->forward(queries));
}

Decoder::Decoder(const ModelOptions& options) : options_(options) {
  enc_output_ = torch::nn::Sequential(torch::nn::Linear(options.hidden, options.hidden), layer_norm(options.hidden));
  register_module("enc_output", enc_output_);
  enc_score_head_ = register_module("enc_score_head", score_head(options));
  enc_bbox_head_ = register_module("enc_bbox_head", box_head(options, 4));
  if (options.dense) {
    dense_head_ = register_module("dense_head", nn::Linear(options.hidden, options.classes + 4));
    start_at_zero(*dense_head_);
    const at::NoGradGuard guard;
    dense_head_->bias.narrow(0, 0, options.classes).fill_(kPriorLogit);
  }
  if (options.denoising > 0) {
    denoising_class_embed_ = register_module(
        "denoising_class_embed",
        torch::nn::Embedding(
            torch::nn::EmbeddingOptions(options.classes + 1, options.hidden).padding_idx(options.classes)));
  }
  heads_.query_pos_head = register_module("query_pos_head", mlp({4, 2 * options.hidden, options.hidden}));
  heads_.pre_bbox_head = register_module("pre_bbox_head", box_head(options, 4));
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) {
    heads_.layers.push_back(register_module(fmt::format("layers_{}", i), std::make_shared<DecoderLayer>(options)));
    heads_.score_heads.push_back(register_module(fmt::format("dec_score_head_{}", i), score_head(options)));
    heads_.box_heads.push_back(
        register_module(fmt::format("dec_bbox_head_{}", i), box_head(options, 4 * (options.reg_max + 1))));
    heads_.quality.push_back(register_module(fmt::format("lqe_{}", i), quality_estimator(options)));
  }
  bins_ = register_buffer(
      "bins", bin_distances({.reg_max = options.reg_max, .reg_scale = options.reg_scale, .up = options.up}));
}

const at::Tensor& Decoder::anchors(const ScaleSizes& sizes, const at::Device& device) {
  if (anchors_.defined() && sizes == anchor_sizes_ && anchors_.device() == device) return anchors_;
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double size = anchor_size(static_cast<std::int64_t>(i));
    all.push_back(inverse_sigmoid(boxes_of_cells(sizes[i][0], sizes[i][1], size), 1e-3));
  }
  anchors_ = at::cat(all, 0).to(device);
  anchor_sizes_ = sizes;
  return anchors_;
}

Queries Decoder::choose(const Memory& memory, Outputs& outputs) {
  at::Tensor best;
  {
    // Only the chosen positions learn: gradients of the other positions would be zeros, yet cost just as much.
    const at::NoGradGuard guard;
    const at::Tensor scores = std::get<0>(enc_score_head_->forward(enc_output_->forward(memory.tokens)).max(-1));
    best = std::get<1>(at::topk(scores.to(at::kFloat), options_.queries, 1));
  }
  const at::Tensor content = enc_output_->forward(rows(memory.tokens, best));
  const at::Tensor anchor = anchors(memory.sizes, memory.tokens.device()).index({best});
  const at::Tensor boxes = at::sigmoid(enc_bbox_head_->forward(content).to(at::kFloat) + anchor);
  if (is_training()) {
    outputs["enc_logits"] = enc_score_head_->forward(content).unsqueeze(0);
    outputs["enc_boxes"] = boxes.unsqueeze(0);
  }
  return {.content = content.detach(), .boxes = boxes.detach()};
}

void Decoder::add_dense(const Memory& memory, Outputs& outputs) {
  const at::Tensor& anchor = anchors(memory.sizes, memory.tokens.device());
  // A single product for both, because most of the cost is in reading all positions from memory.
  const at::Tensor both = dense_head_->forward(memory.tokens).to(at::kFloat).unsqueeze(0);
  outputs["dense_logits"] = both.narrow(-1, 0, options_.classes);
  outputs["dense_boxes"] = at::sigmoid(both.narrow(-1, options_.classes, 4) + anchor);
  std::vector<std::int64_t> sizes;
  for (const auto& size : memory.sizes) sizes.insert(sizes.end(), size.begin(), size.end());
  outputs["dense_sizes"] = at::tensor(sizes, at::kLong).view({-1, 2});
}

void Decoder::prepend(Queries& queries, const Denoising& denoising) {
  const at::Tensor content = denoising_class_embed_->forward(denoising.labels);
  queries.content = at::cat({content.to(queries.content.scalar_type()), queries.content}, 1);
  queries.boxes = at::cat({denoising.boxes, queries.boxes}, 1);
}

Outputs Decoder::forward(const std::vector<at::Tensor>& scales, const Denoising* denoising) {
  Outputs outputs;
  const Memory memory = flattened(scales);
  if (options_.dense && is_training()) add_dense(memory, outputs);
  Queries queries = choose(memory, outputs);
  at::Tensor mask;
  if (denoising != nullptr) {
    const Denoising there = on_device(*denoising, memory.tokens.device());
    prepend(queries, there);
    mask = there.mask;
  }
  const Refined refined = refine(heads_, queries, memory,
                                 {.mask = mask,
                                  .bins = bins_,
                                  .reg_scale = options_.reg_scale,
                                  .last = heads_.layers.size() - 1,
                                  .training = is_training()});
  put(refined, denoising, options_.queries, outputs);
  return outputs;
}

}  // namespace lockstep::detection
