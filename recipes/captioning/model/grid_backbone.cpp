// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/grid_backbone.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/resnet.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/norm_act.h"

namespace lockstep::captioning {
namespace {

constexpr double kCeluAlpha = 1.3;

/// A network of 3x3 convolutions: one for each halving of the size down to the stride, plus one.
class SmallBackbone final : public GridBackbone {
 public:
  explicit SmallBackbone(const BackboneOptions& options) {
    const std::int64_t stride = options.output_stride;
    if (stride != 4 && stride != 8 && stride != 16 && stride != 32) {
      throw UsageError(fmt::format("there is no small backbone with output stride {}", stride), "use 4, 8, 16 or 32");
    }
    if (options.width < 1)
      throw UsageError(fmt::format("the backbone's width is {} channels; it must be at least 1", options.width));
    channels_ = 3;
    std::int64_t out = options.width;
    for (std::int64_t reached = 2; reached <= stride; reached *= 2, out *= 2) add(out, 2);
    add(channels_, 1);
  }

  at::Tensor forward(const at::Tensor& pictures) override {
    at::Tensor x = pictures;
    for (Stage& stage : stages_) x = stage.norm->forward(stage.conv->forward(x));
    return x;
  }

  [[nodiscard]] std::int64_t channels() const override { return channels_; }

 private:
  struct Stage {
    nn::Conv2d conv{nullptr};
    nn::BatchNormReLU2d norm{nullptr};
  };

  void add(std::int64_t out, std::int64_t stride) {
    nn::Conv2d conv(torch::nn::Conv2dOptions(channels_, out, 3).stride(stride).padding(1).bias(false));
    torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    const std::size_t i = stages_.size();
    stages_.push_back(
        {.conv = register_module(fmt::format("conv{}", i), conv),
         .norm = register_module(fmt::format("bn{}", i), nn::BatchNormReLU2d(torch::nn::BatchNormOptions(out)))});
    channels_ = out;
  }

  std::vector<Stage> stages_;
  std::int64_t channels_ = 0;
};

class ResNetBackbone final : public GridBackbone {
 public:
  explicit ResNetBackbone(const BackboneOptions& options)
      : net_(register_module("resnet", std::make_shared<common::ResNet>(common::ResNetOptions{
                                           .layers = options.layers, .output_stride = options.output_stride}))) {}

  at::Tensor forward(const at::Tensor& pictures) override { return net_->features(pictures).high; }
  [[nodiscard]] std::int64_t channels() const override { return net_->high_channels(); }

 private:
  std::shared_ptr<common::ResNet> net_;
};

/// The mask of valid rows; undefined if every image has all rows.
at::Tensor mask_of(const at::Tensor& rows, const std::vector<std::int64_t>& lengths) {
  if (lengths.empty()) return {};
  const std::int64_t most = rows.size(1);
  if (static_cast<std::int64_t>(lengths.size()) != rows.size(0)) {
    throw UsageError(fmt::format("there are lengths for {} images, but features for {}", lengths.size(), rows.size(0)));
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > most) {
      throw UsageError(
          fmt::format("image {} of the batch has {} rows of features; it must have 1 to {}", i, lengths[i], most));
    }
  }
  if (std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t length) { return length == most; })) return {};
  const at::Tensor counts = at::tensor(lengths, at::kLong).unsqueeze(1);
  return (at::arange(most, at::kLong) < counts).to(rows.device(), at::kBool, /*non_blocking=*/true);
}

}  // namespace

std::shared_ptr<GridBackbone> make_backbone(const BackboneOptions& options) {
  switch (options.type) {
    case BackboneType::kSmall:
      return std::make_shared<SmallBackbone>(options);
    case BackboneType::kResNet:
      return std::make_shared<ResNetBackbone>(options);
    case BackboneType::kNone:
      break;
  }
  return nullptr;
}

FeatureEmbedding::FeatureEmbedding(const ModelOptions& options, double dropout)
    : options_(options), backbone_(make_backbone(options.backbone)) {
  if (backbone_) {
    register_module("backbone", backbone_);
    if (options.dim % 4 != 0) {
      throw UsageError(fmt::format("dim is {}; positions in a grid require a multiple of 4", options.dim));
    }
  } else if (options.feature_width < 1) {
    throw UsageError(fmt::format("features are {} wide", options.feature_width));
  }
  embed_ = register_module("embed", linear(backbone_ ? backbone_->channels() : options.feature_width, options.dim));
  dropout_ = register_module("dropout", nn::Dropout(dropout));
}

Features FeatureEmbedding::forward(const at::Tensor& data, const std::vector<std::int64_t>& lengths) {
  Features features = backbone_ ? of_pictures(data) : of_rows(data, lengths);
  // float32 even under Autocast: the residual sums of the layers start here.
  features.tokens = dropout_->forward(at::celu(embed_->forward(features.tokens), kCeluAlpha)).to(at::kFloat);
  features.global = mean_of_rows(features.tokens, features.mask);
  if (backbone_) features.tokens = features.tokens + positions(features, data.device());
  return features;
}

Features FeatureEmbedding::of_pictures(const at::Tensor& pictures) {
  if (pictures.dim() != 4 || pictures.size(1) != 3) {
    throw UsageError(fmt::format("the backbone takes images [B, 3, H, W], but got {} dimensions", pictures.dim()),
                     "to train on features, set data.features");
  }
  const at::Tensor grid = backbone_->forward(pictures);
  return {.tokens = grid.flatten(2).transpose(1, 2), .height = grid.size(2), .width = grid.size(3)};
}

Features FeatureEmbedding::of_rows(const at::Tensor& rows, const std::vector<std::int64_t>& lengths) {
  if (rows.dim() != 3) {
    throw UsageError(
        fmt::format("without a backbone, the network takes features [B, L, D], but got {} dimensions", rows.dim()),
        "to train on images, set model.backbone=small or resnet");
  }
  if (rows.size(2) != options_.feature_width) {
    throw UsageError(
        fmt::format("features are {} wide, but the network takes {}", rows.size(2), options_.feature_width),
        "set the model's feature width to that of the data");
  }
  Features features{.tokens = rows, .mask = mask_of(rows, lengths)};
  if (features.mask.defined()) return features;
  const std::int64_t count = rows.size(1);
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(count))));
  const bool square = options_.grid_height == 0;
  features.height = square ? side : options_.grid_height;
  features.width = square ? side : options_.grid_width;
  if (features.height * features.width != count) features.height = features.width = 0;
  return features;
}

const at::Tensor& FeatureEmbedding::positions(const Features& grid, const at::Device& device) {
  if (!positions_.defined() || positions_height_ != grid.height || positions_width_ != grid.width ||
      positions_.device() != device) {
    positions_ = grid_sinusoids(grid.height, grid.width, options_.dim).to(device);
    positions_height_ = grid.height;
    positions_width_ = grid.width;
  }
  return positions_;
}

}  // namespace lockstep::captioning
