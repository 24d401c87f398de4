// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/transformer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/nn/attention.h"
#include "lockstep/optim/autocast.h"

namespace lockstep::captioning {

EncoderLayer::EncoderLayer(const ModelOptions& options, bool shifted)
    : attention_(register_module(
          "attention", std::make_shared<WindowAttention>(WindowOptions{
                           .dim = options.dim, .heads = options.heads, .window = options.window, .shifted = shifted}))),
      feed_forward_(register_module("feed_forward",
                                    std::make_shared<FeedForward>(options.dim, options.feed_forward, options.dropout))),
      attention_norm_(register_module("attention_norm", layer_norm(options.dim))),
      feed_forward_norm_(register_module("feed_forward_norm", layer_norm(options.dim))),
      dropout_(register_module("dropout", nn::Dropout(options.dropout))) {}

at::Tensor EncoderLayer::forward(const at::Tensor& x, const Grid& grid, const at::Tensor& mask) {
  const at::Tensor seen = normed(attention_norm_, x + dropout_->forward(attention_->forward(x, grid, mask)));
  return normed(feed_forward_norm_, seen + dropout_->forward(feed_forward_->forward(seen)));
}

DecoderLayer::DecoderLayer(const ModelOptions& options)
    : heads_(options.heads),
      scale_(query_scale(options.dim, options.heads)),
      fuse_(register_module("fuse", std::make_shared<PairLinear>(options.dim, options.dim, options.dim))),
      query_key_value_(register_module("query_key_value", linear(options.dim, 3 * options.dim, 3))),
      self_out_(register_module("self_out", linear(options.dim, options.dim))),
      query_(register_module("query", linear(options.dim, options.dim))),
      key_value_(register_module("key_value", linear(options.dim, 2 * options.dim, 2))),
      cross_out_(register_module("cross_out", linear(options.dim, options.dim))),
      feed_forward_(register_module("feed_forward",
                                    std::make_shared<FeedForward>(options.dim, options.feed_forward, options.dropout))),
      dropout_(register_module("dropout", nn::Dropout(options.dropout))) {
  for (const char* name : {"fuse_norm", "self_norm", "cross_norm", "feed_forward_norm"}) {
    norms_.push_back(register_module(name, layer_norm(options.dim)));
  }
}

DecoderLayer::Picture DecoderLayer::look(const at::Tensor& tokens_and_global, const at::Tensor& global) {
  const at::Tensor both = key_value_->forward(tokens_and_global);
  const std::vector<at::Tensor> parts = both.chunk(2, 2);
  return {.global = fuse_->of_shared(global),
          .key = heads_first(parts[0], heads_),
          .value = heads_first(parts[1], heads_),
          .hidden = {}};
}

at::Tensor DecoderLayer::attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                const at::Tensor& hidden) const {
  return nn::attention(heads_first(query, heads_), key, value, {.scale = scale_, .bias = {}, .hidden = hidden});
}

at::Tensor DecoderLayer::with_global(const at::Tensor& x, const Picture& picture) {
  const std::int64_t pictures = picture.global.size(0);
  const at::Tensor sum = fuse_->of(x).view({pictures, -1, x.size(2)}) + picture.global.unsqueeze(1);
  return normed(norms_[0], sum.relu().view_as(x) + x);
}

at::Tensor DecoderLayer::rest(const at::Tensor& x, const at::Tensor& attended, const Picture& picture) {
  const at::Tensor read = normed(norms_[1], x + dropout_->forward(self_out_->forward(attended)));
  // The words of all captions of an image share the same keys.
  const at::Tensor query = query_->forward(read).view({picture.key.size(0), -1, x.size(2)});
  const at::Tensor found = attend(query, picture.key, picture.value, picture.hidden).view_as(x);
  const at::Tensor seen = normed(norms_[2], read + dropout_->forward(cross_out_->forward(found)));
  return normed(norms_[3], seen + dropout_->forward(feed_forward_->forward(seen)));
}

at::Tensor DecoderLayer::forward(const at::Tensor& x, const Picture& picture, const at::Tensor& unseen) {
  const at::Tensor mixed = with_global(x, picture);
  const std::vector<at::Tensor> parts = query_key_value_->forward(mixed).chunk(3, 2);
  const at::Tensor attended = attend(parts[0], heads_first(parts[1], heads_), heads_first(parts[2], heads_), unseen);
  return rest(mixed, attended, picture);
}

at::Tensor DecoderLayer::step(const at::Tensor& x, const Picture& picture, at::Tensor& cache) {
  const at::Tensor mixed = with_global(x, picture);
  const std::vector<at::Tensor> parts = query_key_value_->forward(mixed).chunk(3, 2);
  const at::Tensor own = at::stack({heads_first(parts[1], heads_), heads_first(parts[2], heads_)}, 1);
  cache = cache.size(3) == 0 ? own : at::cat({cache, own}, 3);
  return rest(mixed, attend(parts[0], cache.select(1, 0), cache.select(1, 1), {}), picture);
}

TransformerCaptioner::TransformerCaptioner(const ModelOptions& options)
    : options_(options),
      features_(register_module("features", std::make_shared<FeatureEmbedding>(options, options.dropout))) {
  for (std::int64_t i = 0; i < options.encoder_layers; ++i) {
    encoder_.push_back(
        register_module(fmt::format("encoder{}", i), std::make_shared<EncoderLayer>(options, /*shifted=*/i % 2 == 1)));
  }
  words_ = register_module("words", embedding(options.vocabulary, options.dim));
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) {
    decoder_.push_back(register_module(fmt::format("decoder{}", i), std::make_shared<DecoderLayer>(options)));
  }
  dropout_ = register_module("dropout", nn::Dropout(options.dropout));
  classifier_ = register_module("classifier", linear(options.dim, options.vocabulary));
}

Memory TransformerCaptioner::encode(const at::Tensor& data, const std::vector<std::int64_t>& lengths) {
  const Features features = features_->forward(data, lengths);
  if (options_.window > 0 && features.height == 0) {
    throw UsageError(fmt::format("{} rows of features do not form a grid for windows of {} x {}", data.size(1),
                                 options_.window, options_.window),
                     "set the window to 0, or set the grid's height and width if all images have that many rows");
  }
  const Grid grid{.height = features.height, .width = features.width};
  at::Tensor x = at::cat({features.tokens, features.global.unsqueeze(1)}, 1);
  for (const auto& layer : encoder_) x = layer->forward(x, grid, features.mask);
  const std::vector<at::Tensor> parts = x.split_with_sizes({x.size(1) - 1, 1}, 1);
  Memory memory{.tokens = parts[0], .global = parts[1].squeeze(1), .mask = features.mask, .extra = {}};
  for (const auto& layer : decoder_) {
    const DecoderLayer::Picture picture = layer->look(x, memory.global);
    memory.extra.insert(memory.extra.end(), {picture.global, picture.key, picture.value});
  }
  if (memory.mask.defined()) {
    const at::Tensor hidden = at::constant_pad_nd(memory.mask.logical_not(), {0, 1}, false);
    memory.extra.push_back(hidden.unsqueeze(1).unsqueeze(1));
  }
  return memory;
}

DecoderLayer::Picture TransformerCaptioner::picture_of(const Memory& memory, std::size_t layer) const {
  return {.global = memory.extra[3 * layer],
          .key = memory.extra[3 * layer + 1],
          .value = memory.extra[3 * layer + 2],
          .hidden = memory.mask.defined() ? memory.extra.back() : at::Tensor()};
}

/// Embeds words. Shapes: words [N, T], the first at position `first`; to [N, T, dim].
at::Tensor TransformerCaptioner::embedded(const at::Tensor& words, std::int64_t first) {
  const std::int64_t count = first + words.size(1);
  if (!positions_.defined() || positions_.size(0) < count || positions_.device() != words.device()) {
    positions_ = sinusoids(1, std::max<std::int64_t>(count, 32), options_.dim).to(words.device());
  }
  const at::Tensor scaled = words_->forward(words) * std::sqrt(static_cast<double>(options_.dim));
  return dropout_->forward(scaled + positions_.narrow(0, first, words.size(1)));
}

at::Tensor TransformerCaptioner::decode(const Memory& memory, const at::Tensor& inputs) {
  const std::int64_t length = inputs.size(1);
  const at::Tensor unseen = at::ones({length, length}, inputs.options().dtype(at::kBool)).triu(1);
  at::Tensor x = embedded(inputs, 0);
  for (std::size_t i = 0; i < decoder_.size(); ++i) x = decoder_[i]->forward(x, picture_of(memory, i), unseen);
  return classifier_->forward(x);
}

at::Tensor TransformerCaptioner::logits(const Memory& memory, const at::Tensor& inputs, double scheduled_sampling) {
  if (scheduled_sampling <= 0 || inputs.size(1) < 2) return decode(memory, inputs);
  const std::int64_t later = inputs.size(1) - 1;
  at::Tensor seen;
  {
    const NoGrad guard;
    const at::Tensor first_pass = decode(memory, inputs.narrow(1, 0, later));
    seen = partly_drawn(inputs.narrow(1, 1, later), first_pass, scheduled_sampling);
  }
  return decode(memory, at::cat({inputs.narrow(1, 0, 1), seen}, 1));
}

DecoderState TransformerCaptioner::start(const Memory& memory) {
  const at::Tensor none = at::zeros({memory.rows(), 2, options_.heads, 0, options_.dim / options_.heads},
                                    memory.tokens.options().requires_grad(false));
  return {.tensors = std::vector<at::Tensor>(decoder_.size(), none)};
}

at::Tensor TransformerCaptioner::step(const Memory& memory, DecoderState& state, const at::Tensor& words) {
  at::Tensor x = embedded(words.unsqueeze(1), state.position);
  for (std::size_t i = 0; i < decoder_.size(); ++i) {
    x = decoder_[i]->step(x, picture_of(memory, i), state.tensors[i]);
  }
  ++state.position;
  return at::log_softmax(classifier_->forward(x).squeeze(1), -1, at::kFloat);
}

}  // namespace lockstep::captioning
