// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/backbone.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool2d.h>

#include <utility>

namespace lockstep::detection::dfine {
namespace {

/// Adds a column and a row of zeros on the right and at the bottom, so that kernels of size 2 preserve the size.
at::Tensor one_larger(const at::Tensor& x) { return at::constant_pad_nd(x, {0, 1, 0, 1}); }

/// A 1x1 convolution without an activation, then a depthwise convolution.
Chain light_block(std::int64_t in, std::int64_t out, std::int64_t kernel, const BackboneLayer& layer) {
  Chain layers;
  layers->push_back("conv1", conv_bn_act(in, out, {}, {.relu = false, .frozen = layer.frozen}));
  layers->push_back("conv2", conv_bn_act(out, out, {.kernel = kernel, .groups = out}, layer));
  return layers;
}

void freeze(torch::nn::Module& module) {
  for (at::Tensor& parameter : module.parameters()) parameter.requires_grad_(false);
}

}  // namespace

StemBlock::StemBlock(const std::array<std::int64_t, 2>& channels, const BackboneLayer& layer) {
  const auto [middle, out] = channels;
  stem1_ = register_module("stem1", conv_bn_act(3, middle, {.kernel = 3, .stride = 2}, layer));
  stem2a_ = register_module("stem2a", conv_bn_act(middle, middle / 2, {.kernel = 2}, layer));
  stem2b_ = register_module("stem2b", conv_bn_act(middle / 2, middle, {.kernel = 2}, layer));
  stem3_ = register_module("stem3", conv_bn_act(2 * middle, middle, {.kernel = 3, .stride = 2}, layer));
  stem4_ = register_module("stem4", conv_bn_act(middle, out, {}, layer));
}

at::Tensor StemBlock::forward(const at::Tensor& images) {
  const at::Tensor x = one_larger(stem1_->forward(images));
  const at::Tensor branch = stem2b_->forward(one_larger(stem2a_->forward(x)));
  const at::Tensor pooled = at::max_pool2d(x, 2, 1, 0, 1, /*ceil_mode=*/true);
  return stem4_->forward(stem3_->forward(at::cat({pooled, branch}, 1)));
}

HgBlock::HgBlock(std::int64_t in, const BackboneStage& stage, const BackboneLayer& layer, bool residual)
    : residual_(residual), aggregation_(Chain()) {
  torch::nn::ModuleList list;
  for (std::int64_t i = 0; i < stage.layers; ++i) {
    const std::int64_t channels = i == 0 ? in : stage.middle;
    layers_.push_back(stage.light ? light_block(channels, stage.middle, stage.kernel, layer)
                                  : conv_bn_act(channels, stage.middle, {.kernel = stage.kernel}, layer));
    list->push_back(layers_.back());
  }
  register_module("layers", list);
  aggregation_->push_back(conv_bn_act(in + stage.layers * stage.middle, stage.out / 2, {}, layer));
  aggregation_->push_back(conv_bn_act(stage.out / 2, stage.out, {}, layer));
  register_module("aggregation", aggregation_);
}

at::Tensor HgBlock::forward(const at::Tensor& x) {
  std::vector<at::Tensor> all = {x};
  for (Chain& layer : layers_) all.push_back(layer->forward(all.back()));
  const at::Tensor out = aggregation_->forward(at::cat(all, 1));
  return residual_ ? out + x : out;
}

HgStage::HgStage(const BackboneStage& stage, const BackboneLayer& layer) : blocks_(Chain()) {
  if (stage.downsample) {
    downsample_ =
        register_module("downsample", conv_bn_act(stage.in, stage.in, {.kernel = 3, .stride = 2, .groups = stage.in},
                                                  {.relu = false, .frozen = layer.frozen}));
  }
  for (std::int64_t i = 0; i < stage.blocks; ++i) {
    blocks_->push_back(std::make_shared<HgBlock>(i == 0 ? stage.in : stage.out, stage, layer, /*residual=*/i > 0));
  }
  register_module("blocks", blocks_);
}

at::Tensor HgStage::forward(at::Tensor x) {
  if (!downsample_.is_empty()) x = downsample_->forward(x);
  return blocks_->forward(x);
}

HgNetV2::HgNetV2(const Options& options) : first_out_(static_cast<std::size_t>(4 - options.levels)) {
  const BackboneShape& shape = backbone_shape(options.backbone);
  const BackboneLayer layer{.lab = options.use_lab, .frozen = options.freeze_norm};
  stem_ = register_module("stem", std::make_shared<StemBlock>(shape.stem, layer));
  torch::nn::ModuleList list;
  for (const BackboneStage& stage : shape.stages) {
    stages_.push_back(std::make_shared<HgStage>(stage, layer));
    list->push_back(stages_.back());
  }
  register_module("stages", list);
  if (options.freeze_at < 0) return;
  freeze(*stem_);
  for (std::size_t i = 0; i < stages_.size() && !options.freeze_stem_only; ++i) {
    if (std::cmp_less_equal(i, options.freeze_at)) freeze(*stages_[i]);
  }
}

std::vector<at::Tensor> HgNetV2::forward(const at::Tensor& images_BCHW) {
  std::vector<at::Tensor> scales;
  at::Tensor x = stem_->forward(images_BCHW);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    x = stages_[i]->forward(x);
    if (i >= first_out_) scales.push_back(x);
  }
  return scales;
}

}  // namespace lockstep::detection::dfine
