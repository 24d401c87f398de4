// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/encoder.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

#include "detection/dfine/fuse.h"
#include "detection/model/encoder.h"

namespace lockstep::detection::dfine {
namespace {

/// The sines and cosines of each position's row and column, [height * width, hidden].
at::Tensor sine_table(std::int64_t height, std::int64_t width, std::int64_t hidden) {
  // The original code numbers positions column by column here, but row by row everywhere else. For square images, the
  // only kind it trains on, the first half then belongs to the row; trained weights expect this for any image.
  const std::vector<at::Tensor> halves = sine_positions(width, height, hidden).chunk(2, 1);
  return at::cat({halves[1], halves[0]}, 1);
}

/// A 1x1 convolution, then a depthwise convolution that halves the size.
Chain scale_down(std::int64_t hidden) {
  Chain layers;
  layers->push_back("cv1", conv_norm_act(hidden, hidden));
  layers->push_back("cv2", conv_norm_act(hidden, hidden, {.kernel = 3, .stride = 2, .groups = hidden}));
  Chain list;
  list->push_back(layers);
  return list;
}

/// A fusion block's CSP layer and 3x3 convolution.
Chain csp_branch(std::int64_t in, std::int64_t out, std::int64_t blocks) {
  Chain layers;
  layers->push_back(std::make_shared<CspLayer>(in, out, blocks));
  layers->push_back(conv_norm_act(out, out, {.kernel = 3}, Activation::kSilu));
  return layers;
}

}  // namespace

VggBlock::VggBlock(std::int64_t channels)
    : conv1_(register_module("conv1", conv_norm_act(channels, channels, {.kernel = 3}))),
      conv2_(register_module("conv2", conv_norm_act(channels, channels))) {}

at::Tensor VggBlock::forward(const at::Tensor& x) {
  if (!conv_.is_empty()) return at::silu(conv_->forward(x));
  return at::silu(conv1_->forward(x) + conv2_->forward(x));
}

bool VggBlock::join() {
  if (!conv_.is_empty()) return false;
  conv_ = register_module("conv", joined_conv(*conv1_, *conv2_));
  unregister_module("conv1");
  unregister_module("conv2");
  conv1_ = nullptr;
  conv2_ = nullptr;
  return true;
}

CspLayer::CspLayer(std::int64_t in, std::int64_t out, std::int64_t blocks)
    : conv1_(register_module("conv1", conv_norm_act(in, out, {}, Activation::kSilu))),
      conv2_(register_module("conv2", conv_norm_act(in, out, {}, Activation::kSilu))),
      bottlenecks_(Chain()) {
  for (std::int64_t i = 0; i < blocks; ++i) bottlenecks_->push_back(std::make_shared<VggBlock>(out));
  register_module("bottlenecks", bottlenecks_);
}

at::Tensor CspLayer::forward(const at::Tensor& x) {
  const at::Tensor first = conv1_->forward(x);
  return (bottlenecks_->is_empty() ? first : bottlenecks_->forward(first)) + conv2_->forward(x);
}

FusionBlock::FusionBlock(const Widths& widths)
    : cv1_(register_module("cv1", conv_norm_act(widths.in, widths.split, {}, Activation::kSilu))),
      cv2_(register_module("cv2", csp_branch(widths.split / 2, widths.inner, widths.blocks))),
      cv3_(register_module("cv3", csp_branch(widths.inner, widths.inner, widths.blocks))),
      cv4_(register_module("cv4", conv_norm_act(widths.split + 2 * widths.inner, widths.out, {}, Activation::kSilu))) {}

at::Tensor FusionBlock::forward(const at::Tensor& x) {
  // Takes both halves at once: the gradient of one half would be a full tensor, mostly zeros, in a different memory
  // format.
  const std::vector<at::Tensor> halves = cv1_->forward(x).chunk(2, 1);
  const at::Tensor first = cv2_->forward(halves[1]);
  const at::Tensor second = cv3_->forward(first);
  return cv4_->forward(at::cat({halves[0], halves[1], first, second}, 1));
}

EncoderLayer::EncoderLayer(const Options& options)
    : self_attn_(register_module("self_attn",
                                 std::make_shared<MultiheadAttention>(options.encoder_hidden, options.encoder_heads))),
      linear1_(register_module("linear1", torch::nn::Linear(options.encoder_hidden, options.encoder_feedforward))),
      linear2_(register_module("linear2", torch::nn::Linear(options.encoder_feedforward, options.encoder_hidden))),
      norm1_(register_module("norm1", layer_norm(options.encoder_hidden))),
      norm2_(register_module("norm2", layer_norm(options.encoder_hidden))) {}

at::Tensor EncoderLayer::forward(at::Tensor x_BNH, const at::Tensor& positions_NH) {
  x_BNH = norm1_->forward(x_BNH + self_attn_->forward(x_BNH, positions_NH));
  return norm2_->forward(x_BNH + linear2_->forward(at::gelu(linear1_->forward(x_BNH))));
}

HybridEncoder::HybridEncoder(const Options& options) : hidden_(options.encoder_hidden) {
  const BackboneShape& shape = backbone_shape(options.backbone);
  const auto levels = static_cast<std::size_t>(options.levels);
  for (std::size_t i = 4 - levels; i < 4; ++i) input_proj_.push_back(conv_norm_act(shape.stages[i].out, hidden_));
  for (std::int64_t i = 0; i < options.encoder_layers; ++i) layers_.push_back(std::make_shared<EncoderLayer>(options));
  const FusionBlock::Widths widths{
      .in = 2 * hidden_,
      .out = hidden_,
      .split = 2 * hidden_,
      .inner = static_cast<std::int64_t>(std::floor(options.expansion * static_cast<double>(hidden_) / 2)),
      // Rounds halves to even, as Python does.
      .blocks = static_cast<std::int64_t>(std::nearbyint(3 * options.depth_mult))};
  for (std::size_t i = 0; i + 1 < levels; ++i) {
    lateral_convs_.push_back(conv_norm_act(hidden_, hidden_));
    fpn_blocks_.push_back(std::make_shared<FusionBlock>(widths));
    downsample_convs_.push_back(scale_down(hidden_));
    pan_blocks_.push_back(std::make_shared<FusionBlock>(widths));
  }
  register_list(*this, "input_proj", input_proj_);
  if (!layers_.empty()) {
    // The original code has a transformer, with a list of layers, for each scale with attention.
    auto transformer = std::make_shared<torch::nn::Module>();
    register_list(*transformer, "layers", layers_);
    register_list(*this, "encoder", std::vector{transformer});
  }
  register_list(*this, "lateral_convs", lateral_convs_);
  register_list(*this, "fpn_blocks", fpn_blocks_);
  register_list(*this, "downsample_convs", downsample_convs_);
  register_list(*this, "pan_blocks", pan_blocks_);
}

at::Tensor HybridEncoder::attend(const at::Tensor& coarsest) {
  const std::int64_t height = coarsest.size(2);
  const std::int64_t width = coarsest.size(3);
  at::Tensor tokens = coarsest.flatten(2).transpose(1, 2);
  const at::ScalarType type = tokens.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::vector<std::int64_t> sizes = {height, width};
  if (position_sizes_ != sizes || positions_.device() != tokens.device() || positions_.scalar_type() != type) {
    positions_ = sine_table(height, width, hidden_).to(tokens.device(), type);
    position_sizes_ = sizes;
  }
  for (const auto& layer : layers_) tokens = layer->forward(tokens, positions_);
  return tokens.transpose(1, 2).reshape(coarsest.sizes()).contiguous(coarsest.suggest_memory_format());
}

std::vector<at::Tensor> HybridEncoder::forward(const std::vector<at::Tensor>& scales) {
  std::vector<at::Tensor> x;
  for (std::size_t i = 0; i < scales.size(); ++i) x.push_back(input_proj_[i]->forward(scales[i]));
  if (!layers_.empty()) x.back() = attend(x.back());
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    const std::size_t coarse = x.size() - 1 - i;
    x[coarse] = lateral_convs_[i]->forward(x[coarse]);
    const at::Tensor larger = at::upsample_nearest2d(x[coarse], {x[coarse - 1].size(2), x[coarse - 1].size(3)});
    x[coarse - 1] = fpn_blocks_[i]->forward(at::cat({larger, x[coarse - 1]}, 1));
  }
  for (std::size_t i = 0; i + 1 < x.size(); ++i) {
    x[i + 1] = pan_blocks_[i]->forward(at::cat({downsample_convs_[i]->forward(x[i]), x[i + 1]}, 1));
  }
  return x;
}

}  // namespace lockstep::detection::dfine
