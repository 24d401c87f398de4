// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/origin_names.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "captioning/model/layers.h"
#include "common/origin_names.h"
#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

using Rows = std::vector<common::OriginName>;

constexpr const char* kModule = "module.";

// X-LAN. Source: JDAI-CV/image-captioning (models/xlan.py) and 232525/ImageCaptioning_Verbose.

void add_attention(Rows& rows, const std::string& theirs, const std::string& here) {
  const auto add_normed = [&](const std::string& first, const std::string& second, const std::string& to) {
    rows.push_back({{theirs + first + ".0.", theirs + second + ".0."}, here + to + ".linear."});
    for (const char* end : {"weight", "bias"}) {
      rows.push_back({{theirs + first + ".2." + end, theirs + second + ".2." + end}, here + to + ".norm_" + end});
    }
  };
  add_normed("in_proj_q", "in_proj_v1", "of_query");
  add_normed("in_proj_k", "in_proj_v2", "of_regions");
  rows.push_back({{theirs + "attn_net.attention_basic.0."}, here + "middle."});
  rows.push_back({{theirs + "attn_net.attention_last.weight"}, here + "region_weight.weight"});
  rows.push_back({{theirs + "attn_net.attention_last.bias"}, ""});  // the softmax cancels this bias
  rows.push_back({{theirs + "attn_net.attention_last2."}, here + "channel_weight."});
}

Rows of_x_lan() {
  Rows rows = {{{"word_embed.0."}, "words."},
               {{"att_embed.0."}, "features.embed."},
               {{"encoder_layers.bifeat_emb.*.0."}, "encoder.layer*.update."},
               {{"encoder_layers.layer_norms.*."}, "encoder.layer*.norm."},
               {{"encoder_layers.proj."}, "encoder.join."},
               {{"encoder_layers.layer_norm."}, "encoder.norm."},
               {{"attention.proj."}, "decoder.join."},
               {{"attention.layer_norm."}, "decoder.norm."},
               {{"att2ctx.0."}, "decoder.context."},
               {{"logit."}, "classifier."}};
  add_attention(rows, "encoder_layers.layers.*.encoder_attn.", "encoder.layer*.attention.");
  add_attention(rows, "attention.layers.*.encoder_attn.", "decoder.attention*.");
  return rows;
}

at::Tensor tensor_of(const StateDict& state, const std::string& name) {
  const auto found = state.find(name);
  const auto* tensor = found == state.end() ? nullptr : std::get_if<at::Tensor>(&found->second);
  return tensor == nullptr ? at::Tensor() : *tensor;
}

/// The original LSTM orders its gates input, forget, new, output; here the order is input, forget, output, new.
at::Tensor with_last_gates_swapped(const at::Tensor& gates) {
  const std::vector<at::Tensor> parts = gates.chunk(4);
  return at::cat({parts[0], parts[1], parts[3], parts[2]});
}

/// Splits the LSTM's input weights, which are those for the word followed by those for the context.
void take_lstm(StateDict& weights) {
  const std::string lstm = "att_lstm.";
  const at::Tensor of_input = tensor_of(weights, lstm + "weight_ih");
  const at::Tensor of_hidden = tensor_of(weights, lstm + "weight_hh");
  const at::Tensor bias = tensor_of(weights, lstm + "bias_ih");
  const at::Tensor second_bias = tensor_of(weights, lstm + "bias_hh");
  if (!of_input.defined() || !of_hidden.defined() || !bias.defined() || !second_bias.defined()) return;
  const std::int64_t word = of_input.size(1) - of_hidden.size(1);
  if (word < 1) return;
  weights["decoder.of_word.weight"] = with_last_gates_swapped(of_input.narrow(1, 0, word));
  weights["decoder.of_word.bias"] = with_last_gates_swapped(bias + second_bias);
  weights["decoder.of_state"] =
      with_last_gates_swapped(at::cat({of_input.narrow(1, word, of_hidden.size(1)), of_hidden}, 1));
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}) weights.erase(lstm + name);
}

void give_lstm(StateDict& theirs) {
  const at::Tensor of_word = tensor_of(theirs, "decoder.of_word.weight");
  const at::Tensor of_state = tensor_of(theirs, "decoder.of_state");
  const at::Tensor bias = with_last_gates_swapped(tensor_of(theirs, "decoder.of_word.bias"));
  const std::vector<at::Tensor> halves = of_state.chunk(2, 1);
  theirs["att_lstm.weight_ih"] = with_last_gates_swapped(at::cat({of_word, halves[0]}, 1));
  theirs["att_lstm.weight_hh"] = with_last_gates_swapped(halves[1]);
  theirs["att_lstm.bias_ih"] = bias;
  theirs["att_lstm.bias_hh"] = at::zeros_like(bias);
  for (const char* name : {"decoder.of_word.weight", "decoder.of_word.bias", "decoder.of_state"}) theirs.erase(name);
}

/// Swaps halves: the original puts the global feature before the region, this network after it.
void swap_halves_of_updates(StateDict& weights, const std::string& start, const std::string& end) {
  for (int i = 0;; ++i) {
    const std::string name = fmt::format("{}{}{}", start, i, end);
    const at::Tensor weight = tensor_of(weights, name);
    if (!weight.defined() || weight.dim() != 2) return;
    weights[name] = weight.roll(weight.size(1) / 2, 1);
  }
}

StateDict as_x_lan(const StateDict& model) {
  StateDict theirs = common::OriginNames("X-LAN", of_x_lan()).give(model);
  swap_halves_of_updates(theirs, "encoder_layers.bifeat_emb.", ".0.weight");
  give_lstm(theirs);
  StateDict biases;
  for (const auto& [name, value] : theirs) {
    constexpr std::string_view kLast = "attention_last.weight";
    if (!name.ends_with(kLast)) continue;
    biases[name.substr(0, name.size() - 6) + "bias"] = at::zeros({1}, std::get<at::Tensor>(value).options());
  }
  theirs.merge(biases);
  return theirs;
}

// PureT. Source: 232525/PureT (models/pure_transformer.py); this network takes its backbone's features.

constexpr std::int64_t kWindow = 6;
constexpr std::int64_t kGrid = 12;
constexpr std::int64_t kPositions = 100;

Rows of_pure_t() {
  const std::string encoder = "encoder.layers.*.";
  const std::string decoder = "decoder.layers.*.";
  const auto linears = [](const std::string& at, const std::string& which) {
    std::vector<std::string> names;
    for (const char kind : which) names.push_back(fmt::format("{}.{}_linear.", at, kind));
    return names;
  };
  Rows rows = {{{"att_embed.0."}, "features.embed."},
               {linears(encoder + "encoder_attn", "qkv"), "encoder*.attention.query_key_value."},
               {linears(encoder + "encoder_attn", "o"), "encoder*.attention.out."},
               {{encoder + "encoder_attn.relative_position_bias_table"}, "encoder*.attention.distance_bias"},
               {{encoder + "encoder_attn.relative_position_index"}, ""},
               {{encoder + "attn_mask"}, ""},
               {{encoder + "layer_norm1."}, "encoder*.attention_norm."},
               {{encoder + "layer_norm2."}, "encoder*.feed_forward_norm."},
               {linears(decoder + "word_attn", "qkv"), "decoder*.query_key_value."},
               {linears(decoder + "word_attn", "o"), "decoder*.self_out."},
               {linears(decoder + "cross_att", "q"), "decoder*.query."},
               {linears(decoder + "cross_att", "kv"), "decoder*.key_value."},
               {linears(decoder + "cross_att", "o"), "decoder*.cross_out."},
               {{decoder + "layer_norm1."}, "decoder*.self_norm."},
               {{decoder + "layer_norm2."}, "decoder*.cross_norm."},
               {{decoder + "layer_norm3."}, "decoder*.feed_forward_norm."},
               {{decoder + "fuse_layer.0."}, "decoder*.fuse."},
               {{decoder + "fuse_layer_norm."}, "decoder*.fuse_norm."},
               {{"decoder.word_embed."}, "words."},
               {{"decoder.pos_embed.weight"}, ""},
               {{"decoder.generator."}, "classifier."}};
  for (const auto& [theirs, here] : {std::pair(encoder, "encoder*."), std::pair(decoder, "decoder*.")}) {
    rows.push_back({{theirs + "ff_layer.fc1."}, std::string(here) + "feed_forward.first."});
    rows.push_back({{theirs + "ff_layer.fc2."}, std::string(here) + "feed_forward.second."});
  }
  return rows;
}

/// Reorders the cells of a plane by windows.
at::Tensor in_windows(const at::Tensor& plane) {
  const std::int64_t count = kGrid / kWindow;
  return plane.view({count, kWindow, count, kWindow}).transpose(1, 2).reshape({count * count, kWindow * kWindow});
}

/// The mask that the original code computes and saves: the cells of a window that must not attend to each other after
/// the shift.
at::Tensor window_mask() {
  const at::Tensor first = at::arange(kGrid).ge(kGrid - kWindow / 2).to(at::kLong);  // 1 if from the opposite edge
  const at::Tensor part = in_windows((first.unsqueeze(1) * 2 + first.unsqueeze(0)).contiguous());
  const at::Tensor apart = part.unsqueeze(1).ne(part.unsqueeze(2));
  return at::zeros(apart.sizes()).masked_fill_(apart, -1e9);
}

at::Tensor position_index() {
  const at::Tensor row = at::arange(kWindow).repeat_interleave(kWindow);
  const at::Tensor column = at::arange(kWindow).repeat({kWindow});
  const auto apart = [](const at::Tensor& places) { return places.unsqueeze(1) - places.unsqueeze(0) + (kWindow - 1); };
  return apart(row) * (2 * kWindow - 1) + apart(column);
}

void require_there(bool is_there, const std::string& what) {
  if (is_there) return;
  throw UsageError(fmt::format("the original has no network with {}", what), "omit --as-origin");
}

StateDict as_pure_t(const StateDict& model, const ModelOptions& options) {
  require_there(options.window == kWindow, fmt::format("windows of {} cells (model.window)", options.window));
  StateDict theirs = common::OriginNames("PureT", of_pure_t()).give(model);
  for (std::int64_t i = 0; theirs.contains(fmt::format("encoder.layers.{}.layer_norm1.weight", i)); ++i) {
    const std::string layer = fmt::format("encoder.layers.{}.", i);
    theirs[layer + "encoder_attn.relative_position_index"] = position_index();
    if (i % 2 == 1) theirs[layer + "attn_mask"] = window_mask();
  }
  at::Tensor positions = sinusoids(0, kPositions, options.dim);
  positions.select(0, 0).zero_();
  theirs["decoder.pos_embed.weight"] = positions;
  return theirs;
}

/// True if the network has a backbone of its own. It then does not use the backbone in the file, whose weights are
/// reported as lost.
bool has_backbone(const NamedTensors& model) {
  return std::ranges::any_of(model, [](const auto& entry) { return entry.first.starts_with("features.backbone."); });
}

}  // namespace

bool are_origins(const StateDict& weights, ModelType type) {
  return weights.contains(type == ModelType::kXLinear ? "att_lstm.weight_ih" : "decoder.word_embed.weight");
}

std::vector<std::string> take_origin_names(StateDict& weights, const NamedTensors& model, ModelType type) {
  if (!are_origins(weights, type)) return {};
  if (type == ModelType::kTransformer) {
    Rows rows = of_pure_t();
    if (!has_backbone(model)) rows.push_back({{"backbone."}, ""});
    return common::OriginNames("PureT", std::move(rows)).take(weights, model);
  }
  take_lstm(weights);
  std::vector<std::string> done = common::OriginNames("X-LAN", of_x_lan()).take(weights, model);
  swap_halves_of_updates(weights, "encoder.layer", ".update.weight");
  return done;
}

StateDict give_origin_names(const StateDict& model, const ModelOptions& options) {
  require_there(options.backbone.type == BackboneType::kNone, "a backbone trained with the rest (data.features)");
  const StateDict plain = options.type == ModelType::kXLinear ? as_x_lan(model) : as_pure_t(model, options);
  StateDict theirs;
  for (const auto& [name, value] : plain) theirs[kModule + name] = value;
  return theirs;
}

}  // namespace lockstep::captioning
