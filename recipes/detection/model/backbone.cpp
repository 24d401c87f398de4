// SPDX-License-Identifier: Apache-2.0
#include "detection/model/backbone.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <fmt/format.h>

#include <string>

#include "detection/model/layers.h"

namespace lockstep::detection {
namespace {

torch::nn::Sequential conv_block(std::int64_t in, std::int64_t out, ConvShape shape, bool lab) {
  torch::nn::Sequential layers = conv_norm_relu(in, out, shape);
  if (lab) layers->push_back(Lab());
  return layers;
}

/// A 1x1 convolution, then a depthwise convolution.
torch::nn::Sequential light_block(std::int64_t in, std::int64_t out, std::int64_t kernel, bool lab) {
  torch::nn::Sequential layers = conv_norm_relu(in, out);
  add_conv_norm_relu(layers, out, out, {.kernel = kernel, .groups = out});
  if (lab) layers->push_back(Lab());
  return layers;
}

}  // namespace

AggregationBlock::AggregationBlock(std::int64_t in, const StageOptions& stage, bool lab, bool residual)
    : residual_(residual) {
  std::int64_t channels = in;
  for (std::int64_t i = 0; i < stage.layers; ++i) {
    layers_.push_back(stage.light ? light_block(channels, stage.middle, stage.kernel, lab)
                                  : conv_block(channels, stage.middle, {.kernel = stage.kernel}, lab));
    register_module(fmt::format("layers_{}", i), layers_.back());
    channels = stage.middle;
  }
  aggregation_ = conv_block(in + stage.layers * stage.middle, stage.out / 2, {}, lab);
  add_conv_norm_relu(aggregation_, stage.out / 2, stage.out);
  if (lab) aggregation_->push_back(Lab());
  register_module("aggregation", aggregation_);
}

at::Tensor AggregationBlock::forward(at::Tensor x) {
  std::vector<at::Tensor> all = {x};
  for (torch::nn::Sequential& layer : layers_) all.push_back(layer->forward(all.back()));
  const at::Tensor out = aggregation_->forward(at::cat(all, 1));
  return residual_ ? out + x : out;
}

Stage::Stage(std::int64_t in, const StageOptions& stage, bool lab, bool downsample) {
  if (downsample) {
    downsample_ = register_module("downsample", conv_norm_relu(in, in, {.kernel = 3, .stride = 2, .groups = in}));
  }
  for (std::int64_t i = 0; i < stage.blocks; ++i) {
    const std::int64_t channels = i == 0 ? in : stage.out;
    blocks_.push_back(register_module(fmt::format("blocks_{}", i),
                                      std::make_shared<AggregationBlock>(channels, stage, lab, /*residual=*/i > 0)));
  }
}

at::Tensor Stage::forward(at::Tensor x) {
  if (!downsample_.is_empty()) x = downsample_->forward(x);
  for (const auto& block : blocks_) x = block->forward(x);
  return x;
}

Stem::Stem(std::int64_t middle, std::int64_t out, bool lab)
    : first_(register_module("first", conv_block(3, middle, {.kernel = 3, .stride = 2}, lab))),
      branch_(register_module("branch", conv_block(middle, middle, {.kernel = 3, .stride = 2}, lab))),
      last_(register_module("last", conv_block(2 * middle, out, {}, lab))) {}

at::Tensor Stem::forward(const at::Tensor& images) {
  const at::Tensor x = first_->forward(images);
  return last_->forward(at::cat({branch_->forward(x), at::max_pool2d(x, 2)}, 1));
}

Backbone::Backbone(const ModelOptions& options)
    : stem_(register_module("stem", std::make_shared<Stem>(options.stem[0], options.stem[1], options.lab))) {
  std::int64_t channels = options.stem[1];
  for (std::size_t i = 0; i < options.stages.size(); ++i) {
    stages_.push_back(
        register_module(fmt::format("stages_{}", i), std::make_shared<Stage>(channels, options.stages[i], options.lab,
                                                                             /*downsample=*/i > 0)));
    channels = options.stages[i].out;
  }
}

std::vector<at::Tensor> Backbone::forward(const at::Tensor& images_BCHW) {
  std::vector<at::Tensor> scales;
  at::Tensor x = stem_->forward(images_BCHW);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    x = stages_[i]->forward(x);
    if (i + 3 >= stages_.size()) scales.push_back(x);
  }
  return scales;
}

}  // namespace lockstep::detection
