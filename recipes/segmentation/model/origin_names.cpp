// SPDX-License-Identifier: Apache-2.0
#include "segmentation/model/origin_names.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <variant>

#include "common/origin_names.h"
#include "lockstep/base/error.h"

namespace lockstep::segmentation {
namespace {

using Rows = std::vector<common::OriginName>;

constexpr const char* kFuse = "fuse.0.weight";
constexpr const char* kFirst = "aspp.first.conv.weight";
constexpr std::int64_t kLowChannels = 48;  ///< channels from layer1 in the decoder

/// Adds a convolution and the batch norm that follows it in a chain.
void add_pair(Rows& rows, const std::string& theirs, int at, const std::string& here) {
  rows.push_back({{fmt::format("{}{}.", theirs, at)}, here + ".conv."});
  rows.push_back({{fmt::format("{}{}.", theirs, at + 1)}, here + ".bn."});
}

void add_pyramid(Rows& rows, const std::string& theirs) {
  for (int i = 0; i < 4; ++i) {
    rows.push_back(
        {{fmt::format("{}aspp{}.atrous_conv.", theirs, i + 1)}, fmt::format("aspp.pyramid.branch{}.conv.", i)});
    rows.push_back({{fmt::format("{}aspp{}.bn.", theirs, i + 1)}, fmt::format("aspp.pyramid.branch{}.bn.", i)});
  }
  add_pair(rows, theirs + "global_avg_pool.", 1, "aspp.pyramid.pooled");
}

/// The names in deeplabV2.py and res50_ASPP_lorm.py, which call the pyramid layer5 or layer_pred0.
Rows of_class_width(const std::string& pyramid) {
  Rows rows;
  add_pyramid(rows, pyramid);
  rows.push_back({{pyramid + "conv1."}, "aspp.conv."});
  rows.push_back({{pyramid + "bn1."}, "aspp.bn."});
  return rows;
}

/// The names in deeplabV3p.py and deeplabV3_lorm.py.
Rows of_decoder() {
  Rows rows;
  add_pyramid(rows, "layer_pred0.");
  add_pair(rows, "layer_pred0.prject.", 0, "aspp.project");
  add_pair(rows, "reduce.", 0, "aspp.low");
  add_pair(rows, "fuse.", 0, "aspp.first");
  add_pair(rows, "fuse.", 3, "aspp.second");
  rows.push_back({{"classifier."}, "aspp.classifier."});
  return rows;
}

void add_lorm(Rows& rows, const std::string& theirs) {
  rows.push_back({{theirs + "query_conv."}, "lorm.query."});
  rows.push_back({{theirs + "key_conv."}, "lorm.key."});
  rows.push_back({{theirs + "gamma"}, "lorm.gamma"});
}

/// Source: Czy014/Class-driven-Scribble-Promotion-Network.
common::OriginNames names_of(Rows rows) { return {"Class-driven-Scribble-Promotion-Network", std::move(rows)}; }

common::OriginNames names_of(ModelType type) {
  const bool decoder = has_decoder(type);
  Rows rows = decoder ? of_decoder() : of_class_width(has_lorm(type) ? "layer_pred0." : "layer5.");
  add_lorm(rows, decoder ? "layer_lorm." : "layer_camatt.");
  return names_of(std::move(rows));
}

/// The names of all the original networks; take() uses only the names that fit the model.
common::OriginNames all_names() {
  Rows rows = of_class_width("layer_pred0.");
  for (const Rows& more : {of_class_width("layer5."), of_decoder()}) rows.insert(rows.end(), more.begin(), more.end());
  for (const char* lorm : {"layer_camatt.", "layer_lorm."}) add_lorm(rows, lorm);
  rows.push_back({{"fc."}, ""});
  return names_of(std::move(rows));
}

/// Moves the first `count` channels of a convolution's input to the end.
void roll_channels(StateDict& weights, const std::string& name, std::int64_t count) {
  const auto found = weights.find(name);
  auto* tensor = found == weights.end() ? nullptr : std::get_if<at::Tensor>(&found->second);
  if (tensor != nullptr && tensor->dim() == 4) *tensor = tensor->roll(-count, 1);
}

void require_there(bool is_there, const std::string& what) {
  if (is_there) return;
  throw UsageError(fmt::format("the original code has no network with {}", what), "omit --as-origin");
}

}  // namespace

std::vector<std::string> take_origin_names(StateDict& weights, const NamedTensors& model) {
  const bool decoder = weights.contains(kFuse);
  std::vector<std::string> done = all_names().take(weights, model);
  if (decoder) roll_channels(weights, kFirst, kLowChannels);
  return done;
}

StateDict give_origin_names(const StateDict& model, const ModelOptions& options) {
  require_there(options.backbone.output_stride == 8, fmt::format("stride {}", options.backbone.output_stride));
  require_there(options.backbone.stride_in_1x1,
                "the stride in the 3x3 convolution of a bottleneck (model.stride_in_1x1)");
  require_there(options.rates.empty(), "custom dilations (model.rates)");
  require_there(!has_decoder(options.type) || options.backbone.layers >= 50,
                fmt::format("a decoder on ResNet-{}", options.backbone.layers));
  StateDict theirs = names_of(options.type).give(model);
  const auto fuse = theirs.find(kFuse);
  if (fuse != theirs.end()) roll_channels(theirs, kFuse, std::get<at::Tensor>(fuse->second).size(1) - kLowChannels);
  return theirs;
}

}  // namespace lockstep::segmentation
