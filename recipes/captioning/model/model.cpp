// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/model.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <fmt/format.h>

#include <array>
#include <utility>

#include "captioning/model/transformer.h"
#include "captioning/model/x_linear.h"
#include "lockstep/base/error.h"

namespace lockstep::captioning {
namespace {

constexpr std::array<std::pair<std::string_view, ModelType>, 2> kModels = {
    {{"x_linear", ModelType::kXLinear}, {"transformer", ModelType::kTransformer}}};
constexpr std::array<std::pair<std::string_view, BackboneType>, 3> kBackbones = {
    {{"none", BackboneType::kNone}, {"small", BackboneType::kSmall}, {"resnet", BackboneType::kResNet}}};

void check_probability(double value, const char* what) {
  if (value >= 1) throw UsageError(fmt::format("{} is {}; it must be a probability below 1", what, value));
}

void check_sizes(const ModelOptions& options) {
  const auto at_least = [](std::int64_t value, std::int64_t least, const char* what) {
    if (value < least) throw UsageError(fmt::format("{} is {}; it must be at least {}", what, value, least));
  };
  at_least(options.vocabulary, 2, "the number of word ids");
  at_least(options.heads, 1, "the number of heads");
  at_least(options.dim, 2, "dim");
  at_least(options.encoder_layers, 1, "the number of encoder layers");
  at_least(options.decoder_layers, 1, "the number of decoder layers");
  at_least(options.feed_forward, 1, "the width of the feed-forward layers");
  at_least(options.window, 0, "the window's side");
  at_least(options.grid_height, 0, "the grid's height");
  at_least(options.grid_width, 0, "the grid's width");
  at_least(options.x_linear.word_dim, 0, "the width of the word embedding");
  at_least(options.x_linear.middle_dim, 0, "the inner width of attention");
  if (options.dim % options.heads != 0 || options.dim % 2 != 0) {
    throw UsageError(
        fmt::format("dim is {} and there are {} heads; dim must be even and a multiple of the number of heads",
                    options.dim, options.heads));
  }
  if ((options.grid_height == 0) != (options.grid_width == 0)) {
    throw UsageError(fmt::format("the grid is {} high and {} wide", options.grid_height, options.grid_width),
                     "set both, or set both to 0 for a square");
  }
  if (options.dropout < 0) throw UsageError(fmt::format("dropout is {}; it must be a probability", options.dropout));
  check_probability(options.dropout, "dropout");
  check_probability(options.x_linear.word_dropout, "dropout on words");
  check_probability(options.x_linear.feature_dropout, "dropout on features");
  check_probability(options.x_linear.attention_dropout, "dropout on attention");
  check_probability(options.x_linear.middle_dropout, "dropout inside attention");
  check_probability(options.x_linear.update_dropout, "dropout on updates");
  check_probability(options.x_linear.output_dropout, "dropout on the output");
}

ModelOptions complete(ModelOptions options) {
  const bool transformer = options.type == ModelType::kTransformer;
  if (options.encoder_layers == 0) options.encoder_layers = transformer ? 3 : 4;
  if (options.decoder_layers == 0) options.decoder_layers = transformer ? 3 : 1;
  XLinearOptions& own = options.x_linear;
  for (double* dropout : {&own.word_dropout, &own.feature_dropout, &own.attention_dropout, &own.middle_dropout,
                          &own.update_dropout, &own.output_dropout}) {
    if (*dropout < 0) *dropout = options.dropout;
  }
  check_sizes(options);
  if (own.word_dim == 0) own.word_dim = options.dim;
  if (own.middle_dim == 0) own.middle_dim = (options.dim / options.heads + 1) / 2;
  return options;
}

template <class Names>
auto from_name(const Names& names, std::string_view name, const char* what) {
  std::string known;
  for (const auto& [text, value] : names) {
    if (text == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw UsageError(fmt::format("there is no {} \"{}\"", what, name), fmt::format("use one of {}", known));
}

template <class Names, class Value>
std::string name_of(const Names& names, Value value) {
  for (const auto& [text, known] : names) {
    if (known == value) return std::string(text);
  }
  return "unknown";
}

}  // namespace

ModelType model_type_from_name(std::string_view name) { return from_name(kModels, name, "captioning model"); }
std::string to_string(ModelType type) { return name_of(kModels, type); }
BackboneType backbone_type_from_name(std::string_view name) { return from_name(kBackbones, name, "backbone"); }
std::string to_string(BackboneType type) { return name_of(kBackbones, type); }

Memory detached(const Memory& memory) {
  Memory copy = memory;
  copy.tokens = copy.tokens.detach();
  copy.global = copy.global.detach();
  for (at::Tensor& tensor : copy.extra) tensor = tensor.detach();
  return copy;
}

Memory repeated(const Memory& memory, std::int64_t copies) {
  Memory copy = memory;
  copy.copies *= copies;
  return copy;
}

DecoderState select_rows(const DecoderState& state, const at::Tensor& rows) {
  DecoderState selected{.tensors = {}, .position = state.position};
  for (const at::Tensor& tensor : state.tensors) selected.tensors.push_back(tensor.index_select(0, rows));
  return selected;
}

at::Tensor Captioner::log_probs(const Memory& memory, const at::Tensor& inputs, double scheduled_sampling) {
  return at::log_softmax(logits(memory, inputs, scheduled_sampling), -1, at::kFloat);
}

std::shared_ptr<Captioner> make_captioner(const ModelOptions& options) {
  const ModelOptions whole = complete(options);
  if (whole.type == ModelType::kXLinear) return std::make_shared<XLinearCaptioner>(whole);
  return std::make_shared<TransformerCaptioner>(whole);
}

}  // namespace lockstep::captioning
