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

constexpr double kBorder = 0.01;
constexpr double kFinestAnchor = 0.05;
/// A logit so large that no sum with it changes the sigmoid.
constexpr double kNoAnchor = 1e4;

torch::nn::Linear score_head(std::int64_t hidden, std::int64_t classes) {
  torch::nn::Linear head(hidden, classes);
  torch::nn::init::constant_(head->bias, kPriorLogit);
  return head;
}

/// A box head that initially leaves the boxes unchanged.
std::shared_ptr<Mlp> box_head(const Options& options, std::int64_t out) {
  auto head = std::make_shared<Mlp>(std::vector<std::int64_t>{options.hidden, options.hidden, options.hidden, out},
                                    activation_from_name(options.mlp_activation));
  start_at_zero(head->last());
  return head;
}

std::shared_ptr<QualityEstimator<std::shared_ptr<Mlp>>> quality_estimator(const Options& options) {
  using Quality = QualityEstimator<std::shared_ptr<Mlp>>;
  const auto head = std::make_shared<Mlp>(Quality::widths(), activation_from_name(options.activation));
  start_at_zero(head->last());
  return std::make_shared<Quality>(options.reg_max + 1, head);
}

/// Keeps the initial boxes of denoising away from 0 and 1, using the clamp of inverse_sigmoid().
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
    all.push_back(boxes_of_cells(sizes[i][0], sizes[i][1], size));
  }
  const at::Tensor boxes = at::cat(all, 0);
  const at::Tensor valid = (boxes > kBorder).logical_and(boxes < 1 - kBorder).all(-1, /*keepdim=*/true);
  return {.boxes = at::where(valid, at::log(boxes / (1 - boxes)), at::full({}, kNoAnchor)), .valid = valid};
}

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
    heads_.layers.push_back(std::make_shared<DecoderLayer>(options));
    heads_.quality.push_back(quality_estimator(options));
  }
  register_list(*decoder, "layers", heads_.layers);
  register_list(*decoder, "lqe_layers", heads_.quality);
  register_module("decoder", decoder);
  // The original state dict contains these constants twice.
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
  heads_.query_pos_head =
      register_module("query_pos_head", std::make_shared<Mlp>(std::vector<std::int64_t>{4, 2 * hidden, hidden},
                                                              activation_from_name(options_.mlp_activation)));
  for (const std::size_t i : {0, 1}) torch::nn::init::xavier_uniform_(heads_.query_pos_head->at(i).weight);
  torch::nn::Linear proj(hidden, hidden);
  torch::nn::init::xavier_uniform_(proj->weight);
  enc_output_ = Chain();
  enc_output_->push_back("proj", proj);
  enc_output_->push_back("norm", layer_norm(hidden));
  register_module("enc_output", enc_output_);
  enc_score_head_ = register_module("enc_score_head", score_head(hidden, options_.classes));
  enc_bbox_head_ = register_module("enc_bbox_head", box_head(options_, 4));
  heads_.pre_bbox_head = register_module("pre_bbox_head", box_head(options_, 4));
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    heads_.score_heads.push_back(score_head(hidden, options_.classes));
    heads_.box_heads.push_back(box_head(options_, 4 * (options_.reg_max + 1)));
  }
  register_list(*this, "dec_score_head", heads_.score_heads);
  register_list(*this, "dec_bbox_head", heads_.box_heads);
}

std::vector<at::Tensor> Decoder::projected(const std::vector<at::Tensor>& scales) {
  std::vector<at::Tensor> all = scales;
  for (std::size_t i = 0; i < input_proj_.size(); ++i) all[i] = input_proj_[i]->forward(scales[i]);
  return all;
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

Queries Decoder::choose(const Memory& memory, Outputs& outputs) {
  const Anchors& all = anchors(memory.sizes, memory.tokens);
  const at::Tensor valid = all.valid.to(memory.tokens.scalar_type()).unsqueeze(0);
  at::Tensor best;
  at::Tensor content;
  {
    // Only the chosen positions learn: gradients of the other positions would be zeros, yet cost just as much.
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

Outputs Decoder::forward(const std::vector<at::Tensor>& scales, const Denoising* denoising) {
  Outputs outputs;
  const Memory memory = flattened(projected(scales));
  Queries queries = choose(memory, outputs);
  at::Tensor mask;
  if (denoising != nullptr) {
    const Denoising there = on_device(*denoising, memory.tokens.device());
    prepend(queries, there);
    mask = there.mask.to(memory.tokens.scalar_type());
  }
  // The copy waits for the device, so it is done only once.
  bins_ = bins_.to(memory.tokens.device(), memory.tokens.scalar_type());
  const Refined refined =
      refine(heads_, queries, memory,
             {.mask = mask,
              .bins = bins_,
              .reg_scale = options_.reg_scale,
              .last = static_cast<std::size_t>(is_training() ? options_.layers - 1 : options_.last_layer()),
              .training = is_training()});
  put(refined, denoising, options_.queries, outputs);
  return outputs;
}

}  // namespace lockstep::detection::dfine
