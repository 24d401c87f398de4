// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/decoder.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/meshgrid.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

#include "detection/model/box.h"

namespace lockstep::detection::dfine {
namespace {

/// The logit of the probability that a fresh score head gives: objects are rare.
const double kPriorLogit = std::log(0.01 / 0.99);
constexpr double kBorder = 0.01;
constexpr double kFinestAnchor = 0.05;
/// Before the sigmoid; what is added to it changes nothing.
constexpr double kNoAnchor = 1e4;

torch::nn::Linear score_head(std::int64_t hidden, std::int64_t classes) {
  torch::nn::Linear head(hidden, classes);
  torch::nn::init::constant_(head->bias, kPriorLogit);
  return head;
}

/// A head whose boxes are, at first, those that it starts from.
std::shared_ptr<Mlp> box_head(const Options& options, std::int64_t out) {
  auto head = std::make_shared<Mlp>(std::vector<std::int64_t>{options.hidden, options.hidden, options.hidden, out},
                                    activation_from_name(options.mlp_activation));
  start_at_zero(head->last());
  return head;
}

/// Rows `index` [B, K] of `from` [B, N, X].
at::Tensor rows(const at::Tensor& from, const at::Tensor& index) {
  return from.gather(1, index.unsqueeze(-1).expand({index.size(0), index.size(1), from.size(2)}));
}

/// Cells' middles, and one size that doubles from scale to scale.
at::Tensor anchors_of_scale(std::int64_t height, std::int64_t width, double size) {
  const auto middles = [](std::int64_t count) {
    return (at::arange(count, at::kFloat) + 0.5) / static_cast<double>(count);
  };
  const auto grid = at::meshgrid({middles(height), middles(width)}, "ij");
  const at::Tensor side = at::full({height, width}, size);
  return at::stack({grid[1], grid[0], side, side}, -1).view({height * width, 4});
}

/// The boxes that denoising starts from went through a logit, which keeps them off 0 and 1.
at::Tensor off_the_ends(const at::Tensor& boxes) { return at::sigmoid(inverse_sigmoid(boxes)); }

ScaleSizes sizes_of(const Options& options) {
  ScaleSizes sizes;
  for (std::int64_t i = 0; i < options.levels; ++i) {
    const std::int64_t side = options.image_size / (options.finest_stride() << i);
    sizes.push_back({side, side});
  }
  return sizes;
}

}  // namespace

Anchors anchors_of(const ScaleSizes& sizes) {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double size = kFinestAnchor * static_cast<double>(std::int64_t{1} << i);
    all.push_back(anchors_of_scale(sizes[i][0], sizes[i][1], size));
  }
  const at::Tensor boxes = at::cat(all, 0);
  const at::Tensor valid = (boxes > kBorder).logical_and(boxes < 1 - kBorder).all(-1, /*keepdim=*/true);
  return {.boxes = at::where(valid, at::log(boxes / (1 - boxes)), at::full({}, kNoAnchor)), .valid = valid};
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

Decoder::Decoder(const Options& options) : options_(options) {
  torch::nn::ModuleList projections;
  for (std::int64_t i = 0; i < options.levels; ++i) {
    if (options.encoder_hidden == options.hidden) {
      projections->push_back(torch::nn::Identity());
      continue;
    }
    input_proj_.push_back(conv_norm_act(options.encoder_hidden, options.hidden));
    projections->push_back(input_proj_.back());
  }
  register_module("input_proj", projections);
  auto decoder = std::make_shared<torch::nn::Module>();
  for (std::int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(std::make_shared<DecoderLayer>(options));
    lqe_.push_back(std::make_shared<QualityEstimator>(options));
  }
  register_list(*decoder, "layers", layers_);
  register_list(*decoder, "lqe_layers", lqe_);
  register_module("decoder", decoder);
  // The origin keeps these in both places of its state; they are constants.
  for (torch::nn::Module* module : {static_cast<torch::nn::Module*>(this), decoder.get()}) {
    module->register_buffer("up", at::full({1}, options.up));
    module->register_buffer("reg_scale", at::full({1}, options.reg_scale));
  }
  register_heads();
  const Anchors expected = anchors_of(sizes_of(options));
  register_buffer("anchors", expected.boxes.unsqueeze(0));
  register_buffer("valid_mask", expected.valid.unsqueeze(0));
  bins_ = bin_distances({.reg_max = options.reg_max, .reg_scale = options.reg_scale, .up = options.up});
}

void Decoder::register_heads() {
  const std::int64_t hidden = options_.hidden;
  if (options_.denoising > 0) {
    denoising_class_embed_ = register_module(
        "denoising_class_embed",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(options_.classes + 1, hidden).padding_idx(options_.classes)));
  }
  query_pos_head_ =
      register_module("query_pos_head", std::make_shared<Mlp>(std::vector<std::int64_t>{4, 2 * hidden, hidden},
                                                              activation_from_name(options_.mlp_activation)));
  for (const std::size_t i : {0, 1}) torch::nn::init::xavier_uniform_(query_pos_head_->at(i).weight);
  torch::nn::Linear proj(hidden, hidden);
  torch::nn::init::xavier_uniform_(proj->weight);
  enc_output_ = Chain();
  enc_output_->push_back("proj", proj);
  enc_output_->push_back("norm", layer_norm(hidden));
  register_module("enc_output", enc_output_);
  enc_score_head_ = register_module("enc_score_head", score_head(hidden, options_.classes));
  enc_bbox_head_ = register_module("enc_bbox_head", box_head(options_, 4));
  pre_bbox_head_ = register_module("pre_bbox_head", box_head(options_, 4));
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    dec_score_head_.push_back(score_head(hidden, options_.classes));
    dec_bbox_head_.push_back(box_head(options_, 4 * (options_.reg_max + 1)));
  }
  register_list(*this, "dec_score_head", dec_score_head_);
  register_list(*this, "dec_bbox_head", dec_bbox_head_);
}

Memory Decoder::flattened(const std::vector<at::Tensor>& scales) {
  Memory memory;
  std::vector<at::Tensor> tokens;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const at::Tensor scale = input_proj_.empty() ? scales[i] : input_proj_[i]->forward(scales[i]);
    tokens.push_back(scale.flatten(2).transpose(1, 2));
    memory.sizes.push_back({scale.size(2), scale.size(3)});
  }
  // float32 once, and not again in each layer.
  memory.tokens = at_least_float(at::cat(tokens, 1));
  return memory;
}

const Anchors& Decoder::anchors(const ScaleSizes& sizes, const at::Tensor& like) {
  const bool same = anchors_.boxes.defined() && sizes == anchor_sizes_ && anchors_.boxes.device() == like.device() &&
                    anchors_.boxes.scalar_type() == like.scalar_type();
  if (same) return anchors_;
  const Anchors fresh = anchors_of(sizes);
  anchors_ = {.boxes = fresh.boxes.to(like.device(), like.scalar_type()), .valid = fresh.valid.to(like.device())};
  anchor_sizes_ = sizes;
  return anchors_;
}

Decoder::Queries Decoder::choose(const Memory& memory, Outputs& outputs) {
  const Anchors& all = anchors(memory.sizes, memory.tokens);
  const at::Tensor valid = all.valid.to(memory.tokens.scalar_type()).unsqueeze(0);
  at::Tensor best;
  at::Tensor content;
  {
    // Only the chosen positions learn: gradients of the others would be zeros, at the price of all of them.
    const at::NoGradGuard guard;
    const at::Tensor all_content = enc_output_->forward(memory.tokens * valid);
    const at::Tensor scores = std::get<0>(enc_score_head_->forward(all_content).max(-1));
    best = std::get<1>(at::topk(at_least_float(scores), options_.queries, 1));
    if (!is_training()) content = rows(all_content, best);
  }
  if (is_training()) {
    content = enc_output_->forward(rows(memory.tokens, best) * valid.squeeze(0).index({best}));
  }
  const at::Tensor boxes = at::sigmoid(at_least_float(enc_bbox_head_->forward(content)) + all.boxes.index({best}));
  if (is_training()) {
    outputs["enc_logits"] = enc_score_head_->forward(content).unsqueeze(0);
    outputs["enc_boxes"] = boxes.unsqueeze(0);
  }
  return {.content = content.detach(), .boxes = boxes.detach()};
}

void Decoder::prepend(Queries& queries, const Denoising& denoising) {
  const at::Tensor content = denoising_class_embed_->forward(denoising.labels);
  const at::Tensor boxes = off_the_ends(denoising.boxes.to(queries.boxes.scalar_type()));
  queries.content = at::cat({content.to(queries.content.scalar_type()), queries.content}, 1);
  queries.boxes = at::cat({boxes, queries.boxes}, 1);
}

Decoder::Refined Decoder::refine(const Queries& queries, const Memory& memory, const at::Tensor& mask) {
  constexpr double kFarthest = 10;
  const auto last = static_cast<std::size_t>(is_training() ? options_.layers - 1 : options_.last_layer());
  // The move waits for the device, and is needed once.
  bins_ = bins_.to(memory.tokens.device(), memory.tokens.scalar_type());
  Refined refined;
  at::Tensor content = queries.content;
  at::Tensor content_before;
  at::Tensor corners;
  at::Tensor boxes = queries.boxes;
  for (std::size_t i = 0; i <= last; ++i) {
    const at::Tensor positions = query_pos_head_->forward(boxes).clamp(-kFarthest, kFarthest);
    content = layers_[i]->forward(content, positions, boxes, memory, mask);
    if (i == 0) {
      refined.pre_boxes = at::sigmoid(at_least_float(pre_bbox_head_->forward(content)) + inverse_sigmoid(boxes));
      if (is_training()) refined.pre_logits = dec_score_head_[0]->forward(content);
      refined.refs = refined.pre_boxes.detach();
    }
    const at::Tensor change =
        at_least_float(dec_bbox_head_[i]->forward(content_before.defined() ? content + content_before : content));
    corners = corners.defined() ? corners + change : change;
    const at::Tensor found = moved(refined.refs, expected_distances(corners, bins_), options_.reg_scale);
    if (is_training() || i == last) {
      refined.logits.push_back(lqe_[i]->forward(at_least_float(dec_score_head_[i]->forward(content)), corners));
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
  Queries queries = choose(memory, outputs);
  at::Tensor mask;
  if (denoising != nullptr) {
    const Denoising there = on_device(*denoising, memory.tokens.device());
    prepend(queries, there);
    mask = there.mask.to(memory.tokens.scalar_type());
  }
  const Refined refined = refine(queries, memory, mask);
  const std::int64_t slots = denoising == nullptr ? 0 : denoising->labels.size(1);
  // The slots of denoising come first; they are in the dimension before the last.
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

}  // namespace lockstep::detection::dfine
