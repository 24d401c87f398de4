// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/cat.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/nn/init.h>

#include <cmath>

#include "captioning/model/x_linear.h"
#include "lockstep/optim/autocast.h"

namespace lockstep::captioning {

XLinearDecoder::XLinearDecoder(const ModelOptions& options) : dim_(options.dim) {
  of_word_ = register_module("of_word", nn::Linear(options.x_linear.word_dim, 4 * dim_));
  of_state_ = register_parameter("of_state", at::empty({4 * dim_, 2 * dim_}));
  const double bound = 1 / std::sqrt(static_cast<double>(dim_));
  for (const at::Tensor& weight : {of_word_->weight, of_word_->bias, of_state_}) {
    torch::nn::init::uniform_(weight, -bound, bound);
  }
  for (std::int64_t i = 0; i < options.decoder_layers; ++i) {
    attention_.push_back(register_module(fmt::format("attention{}", i), std::make_shared<BilinearAttention>(options)));
  }
  join_ = register_module("join", linear((options.decoder_layers + 1) * dim_, dim_));
  norm_ = register_module("norm", layer_norm(dim_));
  context_ = register_module("context", linear(2 * dim_, 2 * dim_));
  context_dropout_ = register_module("context_dropout", nn::Dropout(options.x_linear.output_dropout));
}

std::vector<at::Tensor> XLinearDecoder::look(const Seen& seen) {
  // The LSTM reads the sum of the global feature and the context, so both have the same weights.
  std::vector<at::Tensor> extra = {nn::linear(seen.global, of_state_.narrow(1, 0, dim_))};
  for (const auto& layer : attention_) {
    const Regions regions = layer->look(seen.tokens);
    extra.insert(extra.end(), {regions.key, regions.value});
  }
  return extra;
}

at::Tensor XLinearDecoder::gates_of_words(const at::Tensor& embedded) { return of_word_->forward(embedded); }

/// Runs all attention layers. Shapes: hidden [N, dim] to the same.
at::Tensor XLinearDecoder::found(const at::Tensor& hidden, const Memory& memory) {
  at::Tensor query = hidden.view({memory.global.size(0), -1, dim_});
  std::vector<at::Tensor> all = {query};
  for (std::size_t i = 0; i < attention_.size(); ++i) {
    query =
        attention_[i]->forward(query, {.key = memory.extra[2 * i + 1], .value = memory.extra[2 * i + 2]}, memory.mask);
    all.push_back(query);
  }
  return normed(norm_, join_->forward(at::cat(all, 2))).view({-1, dim_});
}

LstmState XLinearDecoder::step(const at::Tensor& gates, const LstmState& state, const Memory& memory) {
  const at::Tensor before = at::cat({context_dropout_->forward(state.context), state.hidden}, 1);
  const at::Tensor& of_global = memory.extra.front();
  const at::Tensor sum =
      (gates.reshape({of_global.size(0), -1, 4 * dim_}) + of_global.unsqueeze(1)).view({-1, 4 * dim_}) +
      nn::linear(before, of_state_);
  const std::vector<at::Tensor> parts = sum.split_with_sizes({3 * dim_, dim_}, 1);
  const std::vector<at::Tensor> open = parts[0].sigmoid().chunk(3, 1);  // input, forget, output
  const at::Tensor cell = open[1] * state.cell + open[0] * parts[1].tanh();
  const at::Tensor hidden = open[2] * cell.tanh();
  const at::Tensor context = at::glu(context_->forward(at::cat({found(hidden, memory), hidden}, 1)), 1);
  return {.hidden = hidden, .cell = cell, .context = context};
}

XLinearCaptioner::XLinearCaptioner(const ModelOptions& options)
    : options_(options),
      features_(
          register_module("features", std::make_shared<FeatureEmbedding>(options, options.x_linear.feature_dropout))),
      encoder_(register_module("encoder", std::make_shared<XLinearEncoder>(options))),
      words_(register_module("words", embedding(options.vocabulary, options.x_linear.word_dim))),
      word_dropout_(register_module("word_dropout", nn::Dropout(options.x_linear.word_dropout))),
      decoder_(register_module("decoder", std::make_shared<XLinearDecoder>(options))),
      output_dropout_(register_module("output_dropout", nn::Dropout(options.x_linear.output_dropout))),
      classifier_(register_module("classifier", linear(options.dim, options.vocabulary))) {}

Memory XLinearCaptioner::encode(const at::Tensor& data, const std::vector<std::int64_t>& lengths) {
  const Features features = features_->forward(data, lengths);
  const Seen seen = encoder_->forward({.tokens = features.tokens, .global = features.global}, features.mask);
  return {.tokens = seen.tokens, .global = seen.global, .mask = features.mask, .extra = decoder_->look(seen)};
}

at::Tensor XLinearCaptioner::gates_of(const at::Tensor& words) {
  const at::Tensor embedded = words_->forward(words);
  const at::Tensor active = options_.x_linear.celu_of_words ? at::celu(embedded, kCelu) : embedded;
  return decoder_->gates_of_words(word_dropout_->forward(active));
}

LstmState XLinearCaptioner::fresh(std::int64_t rows, const Memory& memory) const {
  const at::Tensor zeros = at::zeros({rows, options_.dim}, memory.tokens.options().dtype(at::kFloat));
  return {.hidden = zeros, .cell = zeros, .context = zeros};
}

at::Tensor XLinearCaptioner::logits(const Memory& memory, const at::Tensor& inputs, double scheduled_sampling) {
  const bool drawn = scheduled_sampling > 0;
  LstmState state = fresh(inputs.size(0), memory);
  // If all words are known in advance, a single product computes their gates.
  const std::vector<at::Tensor> gates = drawn ? std::vector<at::Tensor>() : gates_of(inputs).unbind(1);
  std::vector<at::Tensor> contexts;
  for (std::int64_t t = 0; t < inputs.size(1); ++t) {
    at::Tensor words = inputs.select(1, t);
    if (drawn && t > 0) {
      const NoGrad guard;
      words = partly_drawn(words, classifier_->forward(state.context), scheduled_sampling);
    }
    state = decoder_->step(drawn ? gates_of(words) : gates[static_cast<std::size_t>(t)], state, memory);
    contexts.push_back(state.context);
  }
  return classifier_->forward(output_dropout_->forward(at::stack(contexts, 1)));
}

DecoderState XLinearCaptioner::start(const Memory& memory) {
  const LstmState state = fresh(memory.rows(), memory);
  return {.tensors = {state.hidden, state.cell, state.context}};
}

at::Tensor XLinearCaptioner::step(const Memory& memory, DecoderState& state, const at::Tensor& words) {
  const LstmState next = decoder_->step(
      gates_of(words), {.hidden = state.tensors[0], .cell = state.tensors[1], .context = state.tensors[2]}, memory);
  state.tensors = {next.hidden, next.cell, next.context};
  ++state.position;
  return at::log_softmax(classifier_->forward(output_dropout_->forward(next.context)), -1, at::kFloat);
}

}  // namespace lockstep::captioning
