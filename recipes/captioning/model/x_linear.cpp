// SPDX-License-Identifier: Apache-2.0
// The attention and the encoder; the rest is in x_linear_decoder.cpp.
#include "captioning/model/x_linear.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <limits>

namespace lockstep::captioning {
NormedPair::NormedPair(std::int64_t dim, std::int64_t heads)
    : heads_(heads),
      linear_(register_module("linear", linear(dim, 2 * dim, 2))),
      norm_weight_(register_parameter("norm_weight", at::ones({2 * dim}))),
      norm_bias_(register_parameter("norm_bias", at::zeros({2 * dim}))) {}

std::vector<at::Tensor> NormedPair::forward(const at::Tensor& x) {
  const std::int64_t rows = x.size(1);
  const at::Tensor active = at::celu(linear_->forward(x.reshape({x.size(0) * rows, -1})), kCelu);
  // Group norm of one number per channel equals layer norm within each group, which costs half as much.
  const std::int64_t depth = norm_weight_.size(0) / (2 * heads_);
  const at::Tensor unit = at::layer_norm(active.to(at::kFloat).view({-1, 2 * heads_, depth}), {depth});
  const at::Tensor normed = at::addcmul(norm_bias_, unit.view_as(active), norm_weight_);
  return normed.view({x.size(0), rows, 2, heads_, depth}).permute({2, 0, 3, 1, 4}).unbind(0);
}

BilinearAttention::BilinearAttention(const ModelOptions& options)
    : of_query_(register_module("of_query", std::make_shared<NormedPair>(options.dim, options.heads))),
      of_regions_(register_module("of_regions", std::make_shared<NormedPair>(options.dim, options.heads))) {
  const std::int64_t depth = options.dim / options.heads;
  const std::int64_t width = options.x_linear.middle_dim;
  middle_ = register_module("middle", linear(depth, width));
  region_weight_ = register_module("region_weight", linear_without_bias(width, 1));
  channel_weight_ = register_module("channel_weight", linear(width, depth));
  dropout_ = register_module("dropout", nn::Dropout(options.x_linear.attention_dropout));
  middle_dropout_ = register_module("middle_dropout", nn::Dropout(options.x_linear.middle_dropout));
}

Regions BilinearAttention::look(const at::Tensor& tokens) {
  const std::vector<at::Tensor> both = of_regions_->forward(tokens);
  return {.key = at::constant_pad_nd(both[0], {0, 1}, 1), .value = both[1].contiguous()};
}

/// Computes W (q * k) as (W diag(q)) k: W diag(q) is computed once per query, so q * k is never computed for every pair
/// of query and region. The bias is an additional column of the weight, multiplied by the 1 in the key.
/// Shapes: query [B, heads, S, depth], key [B, heads, L, depth + 1]; to [B, heads, L, S, width].
at::Tensor BilinearAttention::middle(const at::Tensor& query, const at::Tensor& key) {
  const std::int64_t queries = query.size(2);
  const std::int64_t width = middle_->weight.size(0);
  const at::Tensor bias = middle_->bias.view({width, 1}).expand({query.size(0), query.size(1), queries, width, 1});
  const at::Tensor weights = at::cat({query.unsqueeze(3) * middle_->weight, bias}, 4).flatten(2, 3);
  const at::Tensor product = at::matmul(key, weights.transpose(2, 3));
  return middle_dropout_->forward(product.view({key.size(0), key.size(1), key.size(2), queries, width}).relu());
}

/// Shapes: middle [B, heads, L, S, width]; to [B, heads, S, depth].
at::Tensor BilinearAttention::channel_weights(const at::Tensor& middle, const at::Tensor& mask) {
  if (!mask.defined()) return channel_weight_->forward(middle.mean(2)).sigmoid();
  const at::Tensor there = mask.to(middle.scalar_type()).view({mask.size(0), 1, mask.size(1), 1, 1});
  return channel_weight_->forward((middle * there).sum(2) / there.sum(2)).sigmoid();
}

at::Tensor BilinearAttention::forward(const at::Tensor& queries, const Regions& regions, const at::Tensor& mask) {
  const std::vector<at::Tensor> both = of_query_->forward(queries);
  const at::Tensor seen = middle(both[0], regions.key);
  at::Tensor scores = region_weight_->forward(seen).squeeze(4);
  if (mask.defined()) {
    scores = scores.masked_fill(mask.logical_not().view({mask.size(0), 1, mask.size(1), 1}),
                                -std::numeric_limits<double>::infinity());
  }
  const at::Tensor mixed = at::matmul(at::softmax(scores, 2).transpose(2, 3), regions.value);
  const at::Tensor found = both[1] * mixed * channel_weights(seen, mask);
  return dropout_->forward(found.transpose(1, 2).reshape(queries.sizes()));
}

XLinearEncoder::XLinearEncoder(const ModelOptions& options) {
  for (std::int64_t i = 0; i < options.encoder_layers; ++i) {
    const auto holder = register_module(fmt::format("layer{}", i), std::make_shared<torch::nn::Module>());
    layers_.push_back({.attention = holder->register_module("attention", std::make_shared<BilinearAttention>(options)),
                       .update = holder->register_module(
                           "update", std::make_shared<PairLinear>(options.dim, options.dim, options.dim)),
                       .norm = holder->register_module("norm", layer_norm(options.dim))});
  }
  join_ = register_module("join", linear((options.encoder_layers + 1) * options.dim, options.dim));
  norm_ = register_module("norm", layer_norm(options.dim));
  dropout_ = register_module("dropout", nn::Dropout(options.x_linear.update_dropout));
}

Seen XLinearEncoder::forward(const Seen& features, const at::Tensor& mask) {
  at::Tensor tokens = features.tokens;
  at::Tensor global = features.global.unsqueeze(1);
  std::vector<at::Tensor> globals = {global};
  for (Layer& layer : layers_) {
    global = layer.attention->forward(global, layer.attention->look(tokens), mask);
    globals.push_back(global);
    const at::Tensor update = (layer.update->of(tokens) + layer.update->of_shared(global)).relu_();
    tokens = normed(layer.norm, dropout_->forward(update) + tokens);
  }
  return {.tokens = tokens, .global = normed(norm_, join_->forward(at::cat(globals, 2)).squeeze(1))};
}

}  // namespace lockstep::captioning
