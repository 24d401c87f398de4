// SPDX-License-Identifier: Apache-2.0
#include "segmentation/model/model.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::segmentation {
namespace {

constexpr std::array<std::pair<std::string_view, ModelType>, 4> kTypes = {
    {{"aspp_lorm", ModelType::kAsppLorm},
     {"deeplabv2", ModelType::kDeepLabV2},
     {"deeplabv3p", ModelType::kDeepLabV3Plus},
     {"deeplabv3p_lorm", ModelType::kDeepLabV3PlusLorm}}};

ModelOptions checked(ModelOptions options) {
  if (options.classes < 2 || options.classes > 255) {
    throw UsageError(
        fmt::format("there are {} classes; there must be 2 to 255, including the background", options.classes));
  }
  if (options.dropout < 0 || options.dropout >= 1) {
    throw UsageError(fmt::format("dropout is {}; it must be a probability below 1", options.dropout));
  }
  if (options.rates.empty()) {
    options.rates =
        has_decoder(options.type) ? std::vector<std::int64_t>{6, 12, 18} : std::vector<std::int64_t>{12, 18, 24};
  }
  for (const std::int64_t rate : options.rates) {
    if (rate < 1) throw UsageError(fmt::format("a dilation of the pyramid is {}; it must be at least 1", rate));
  }
  return options;
}

}  // namespace

ModelType model_type_from_name(std::string_view name) {
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  throw UsageError(fmt::format("there is no segmentation model \"{}\"", name),
                   "use aspp_lorm, deeplabv2, deeplabv3p or deeplabv3p_lorm");
}

std::string to_string(ModelType type) {
  for (const auto& [name, known] : kTypes) {
    if (known == type) return std::string(name);
  }
  return "unknown";
}

bool has_decoder(ModelType type) { return type == ModelType::kDeepLabV3Plus || type == ModelType::kDeepLabV3PlusLorm; }

bool has_lorm(ModelType type) { return type == ModelType::kAsppLorm || type == ModelType::kDeepLabV3PlusLorm; }

Segmenter::Segmenter(const ModelOptions& options) : ResNet(options.backbone), options_(checked(options)) {
  if (has_decoder(options_.type)) {
    head_ = std::make_shared<DecoderHead>(DecoderOptions{.low = low_channels(),
                                                         .high = high_channels(),
                                                         .classes = options_.classes,
                                                         .rates = options_.rates,
                                                         .dropout = options_.dropout});
  } else {
    head_ = std::make_shared<ClassWidthHead>(high_channels(), options_.classes, options_.rates);
  }
  register_module("aspp", head_);
  if (has_lorm(options_.type)) lorm_ = register_module("lorm", std::make_shared<Lorm>(high_channels()));
}

Outputs Segmenter::forward(const at::Tensor& images, const at::Tensor& labels) {
  const auto [low, high] = features(images);
  Outputs outputs{{"logits", head_->forward(low, high)}};
  if (lorm_ && is_training()) {
    if (!labels.defined()) {
      throw UsageError(
          fmt::format("{} got no labels in training, but its LoRM branch needs them", to_string(options_.type)));
    }
    outputs.emplace("lorm", lorm_->forward(high, labels));
  }
  return outputs;
}

}  // namespace lockstep::segmentation
