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

/// The logit of the probability that a fresh score head gives: objects are rare.
const double kPriorLogit = std::log(0.01 / 0.99);

nn::LayerNorm layer_norm(std::int64_t hidden) { return nn::LayerNorm(torch::nn::LayerNormOptions({hidden})); }

template <class Layer>
void start_at_zero(Layer& layer) {
  torch::nn::init::zeros_(layer.weight);
  torch::nn::init::zeros_(layer.bias);
}

nn::Linear score_head(const ModelOptions& options) {
  nn::Linear head(options.hidden, options.classes);
  torch::nn::init::constant_(head->bias, kPriorLogit);
  return head;
}

/// A head whose boxes are, at first, those that it starts from.
torch::nn::Sequential box_head(const ModelOptions& options, std::int64_t out) {
  torch::nn::Sequential head = mlp({options.hidden, options.hidden, options.hidden, out});
  start_at_zero(last_layer(head));
  return head;
}

/// Rows `index` [B, K] of `from` [B, N, X].
at::Tensor rows(const at::Tensor& from, const at::Tensor& index) {
  return from.gather(1, index.unsqueeze(-1).expand({index.size(0), index.size(1), from.size(2)}));
}

/// Boxes of a scale's positions before the sigmoid: the cell's middle, and one size that doubles from scale to scale.
at::Tensor anchors_of_scale(std::int64_t height, std::int64_t width, double size) {
  const auto middles = [](std::int64_t count) {
    return (at::arange(count, at::kFloat) + 0.5) / static_cast<double>(count);
  };
  const auto grid = at::meshgrid({middles(height), middles(width)}, "ij");
  const at::Tensor side = at::full({height, width}, size);
  return inverse_sigmoid(at::stack({grid[1], grid[0], side, side}, -1).view({height * width, 4}), 1e-3);
}

}  // namespace

Gate::Gate(std::int64_t hidden)
    : gate_(register_module("gate", nn::Linear(2 * hidden, 2 * hidden))),
      norm_(register_module("norm", layer_norm(hidden))) {
  start_at_zero(*gate_);
}

at::Tensor Gate::forward(const at::Tensor& was, const at::Tensor& saw) {
  const std::vector<at::Tensor> shares = at::sigmoid(gate_->forward(at::cat({was, saw}, -1))).chunk(2, -1);
  return norm_->forward(shares[0] * was + shares[1] * saw);
}

namespace {
constexpr std::int64_t kTopBins = 4;
constexpr std::int64_t kQualityHidden = 64;
}  // namespace

QualityEstimator::QualityEstimator(const ModelOptions& options)
    : bins_(options.reg_max + 1), reg_conf_(register_module("reg_conf", mlp({4 * (kTopBins + 1), kQualityHidden, 1}))) {
  start_at_zero(last_layer(reg_conf_));
}

at::Tensor QualityEstimator::forward(const at::Tensor& logits, const at::Tensor& corners) {
  const std::int64_t batch = corners.size(0);
  const std::int64_t count = corners.size(1);
  const at::Tensor shares = at::softmax(corners.view({batch, count, 4, bins_}), -1);
  const at::Tensor top = std::get<0>(at::topk(shares, kTopBins, -1));
  const at::Tensor features = at::cat({top, top.mean(-1, /*keepdim=*/true)}, -1).view({batch, count, -1});
  return logits + reg_conf_->forward(features);
}

DecoderLayer::DecoderLayer(const ModelOptions& options)
    : self_attn_(register_module("self_attn", std::make_shared<SelfAttention>(options.hidden, options.heads))),
      cross_attn_(register_module("cross_attn", std::make_shared<DeformableAttention>(options))),
      gateway_(register_module("gateway", std::make_shared<Gate>(options.hidden))),
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

struct Decoder::Queries {
  at::Tensor content;  ///< [B, Q, hidden]
  at::Tensor boxes;    ///< [B, Q, 4], no gradient
};

/// The state of all queries, denoising and proper ones.
struct Decoder::Refined {
  std::vector<at::Tensor> logits;
  std::vector<at::Tensor> boxes;
  std::vector<at::Tensor> corners;
  at::Tensor refs;
  at::Tensor pre_logits;
  at::Tensor pre_boxes;
};

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
  query_pos_head_ = register_module("query_pos_head", mlp({4, 2 * options.hidden, options.hidden}));
  pre_bbox_head_ = register_module("pre_bbox_head", box_head(options, 4));
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) {
    layers_.push_back(register_module(fmt::format("layers_{}", i), std::make_shared<DecoderLayer>(options)));
    dec_score_head_.push_back(register_module(fmt::format("dec_score_head_{}", i), score_head(options)));
    dec_bbox_head_.push_back(
        register_module(fmt::format("dec_bbox_head_{}", i), box_head(options, 4 * (options.reg_max + 1))));
    lqe_.push_back(register_module(fmt::format("lqe_{}", i), std::make_shared<QualityEstimator>(options)));
  }
  bins_ = register_buffer(
      "bins", bin_distances({.reg_max = options.reg_max, .reg_scale = options.reg_scale, .up = options.up}));
}

Memory Decoder::flattened(const std::vector<at::Tensor>& scales) {
  Memory memory;
  std::vector<at::Tensor> tokens;
  for (const at::Tensor& scale : scales) {
    tokens.push_back(scale.flatten(2).transpose(1, 2));
    memory.sizes.push_back({scale.size(2), scale.size(3)});
  }
  // float32 once, and not again in each layer.
  memory.tokens = at::cat(tokens, 1).to(at::kFloat);
  return memory;
}

const at::Tensor& Decoder::anchors(const ScaleSizes& sizes, const at::Device& device) {
  if (anchors_.defined() && sizes == anchor_sizes_ && anchors_.device() == device) return anchors_;
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    all.push_back(anchors_of_scale(sizes[i][0], sizes[i][1], anchor_size(static_cast<std::int64_t>(i))));
  }
  anchors_ = at::cat(all, 0).to(device);
  anchor_sizes_ = sizes;
  return anchors_;
}

Decoder::Queries Decoder::choose(const Memory& memory, Outputs& outputs) {
  at::Tensor best;
  {
    // Only the chosen positions learn: gradients of the others would be zeros, at the price of all of them.
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
  // One product for both: the memory of all positions is what costs.
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

Decoder::Refined Decoder::refine(const Queries& queries, const Memory& memory, const at::Tensor& mask) {
  constexpr double kFarthest = 10;
  Refined refined;
  at::Tensor content = queries.content;
  at::Tensor content_before;
  at::Tensor corners;
  at::Tensor boxes = queries.boxes;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const at::Tensor positions = query_pos_head_->forward(boxes).clamp(-kFarthest, kFarthest);
    content = layers_[i]->forward(content, positions, boxes, memory, mask);
    if (i == 0) {
      refined.pre_boxes = at::sigmoid(pre_bbox_head_->forward(content).to(at::kFloat) + inverse_sigmoid(boxes));
      if (is_training()) refined.pre_logits = dec_score_head_[0]->forward(content);
      refined.refs = refined.pre_boxes.detach();
    }
    const at::Tensor change =
        dec_bbox_head_[i]->forward(content_before.defined() ? content + content_before : content).to(at::kFloat);
    corners = corners.defined() ? corners + change : change;
    const at::Tensor found = moved(refined.refs, expected_distances(corners, bins_), options_.reg_scale);
    if (is_training() || i + 1 == layers_.size()) {
      refined.logits.push_back(lqe_[i]->forward(dec_score_head_[i]->forward(content).to(at::kFloat), corners));
      refined.boxes.push_back(found);
      refined.corners.push_back(corners);
    }
    boxes = found.detach();
    content_before = content.detach();
  }
  return refined;
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
  const Refined refined = refine(queries, memory, mask);
  const std::int64_t slots = denoising == nullptr ? 0 : options_.denoising;
  // The queries' axis is the last but one of every tensor.
  const auto put = [&](const std::string& name, const at::Tensor& all) {
    // Both parts: the gradient of one alone would be a whole of zeros.
    const std::vector<at::Tensor> parts = all.split_with_sizes({slots, options_.queries}, -2);
    outputs[name] = parts[1];
    if (denoising != nullptr) outputs["dn_" + name] = parts[0];
  };
  put("logits", at::stack(refined.logits));
  put("boxes", at::stack(refined.boxes));
  put("corners", at::stack(refined.corners));
  put("refs", refined.refs);
  if (is_training()) {
    put("pre_logits", refined.pre_logits.unsqueeze(0));
    put("pre_boxes", refined.pre_boxes.unsqueeze(0));
  }
  if (denoising != nullptr) {
    outputs["dn_index"] = denoising->index;
    outputs["dn_weight"] = denoising->weight;
  }
  return outputs;
}

}  // namespace lockstep::detection
