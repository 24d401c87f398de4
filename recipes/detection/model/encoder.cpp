// SPDX-License-Identifier: Apache-2.0
#include "detection/model/encoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/nn/resize.h"

namespace lockstep::detection {

at::Tensor sine_positions(std::int64_t height, std::int64_t width, std::int64_t hidden) {
  constexpr double kTemperature = 10000;
  const std::int64_t quarter = hidden / 4;
  const at::Tensor frequencies =
      at::pow(kTemperature, at::arange(quarter, at::kDouble) / -static_cast<double>(quarter));
  const auto waves = [&](std::int64_t count) {
    const at::Tensor angles = at::outer(at::arange(count, at::kDouble), frequencies);
    return at::cat({angles.sin(), angles.cos()}, 1);
  };
  const at::Tensor columns = waves(width).unsqueeze(0).expand({height, width, 2 * quarter});
  const at::Tensor rows = waves(height).unsqueeze(1).expand({height, width, 2 * quarter});
  return at::cat({columns, rows}, 2).reshape({height * width, hidden});
}

EncoderLayer::EncoderLayer(const ModelOptions& options)
    : self_attn_(register_module("self_attn", std::make_shared<SelfAttention>(options.hidden, options.heads))),
      feedforward_(register_module("feedforward", mlp({options.hidden, options.encoder_feedforward, options.hidden}))),
      norm1_(register_module("norm1", nn::LayerNorm(torch::nn::LayerNormOptions({options.hidden})))),
      norm2_(register_module("norm2", nn::LayerNorm(torch::nn::LayerNormOptions({options.hidden})))) {}

at::Tensor EncoderLayer::forward(at::Tensor x_BNH, const at::Tensor& positions_NH) {
  x_BNH = norm1_->forward(x_BNH + self_attn_->forward(x_BNH, positions_NH));
  return norm2_->forward(x_BNH + feedforward_->forward(x_BNH));
}

FusionBlock::FusionBlock(const ModelOptions& options) {
  // A multiple of 16, so that each half has a channel count that the batch norm kernels accept.
  const std::int64_t inner = std::max<std::int64_t>(
      16, static_cast<std::int64_t>(options.expansion * static_cast<double>(options.hidden)) / 16 * 16);
  squeeze_ = register_module("squeeze", conv_norm_relu(2 * options.hidden, inner));
  for (std::int64_t i = 0; i < options.fusion_depth; ++i) {
    convs_.push_back(register_module(fmt::format("convs_{}", i), conv_norm_relu(inner / 2, inner / 2, {.kernel = 3})));
  }
  out_ = register_module("out", conv_norm_relu(inner + options.fusion_depth * inner / 2, options.hidden));
}

at::Tensor FusionBlock::forward(const at::Tensor& fine, const at::Tensor& coarse) {
  const at::Tensor x = squeeze_->forward(at::cat({fine, coarse}, 1));
  // Takes both halves at once: the gradient of one half would be a full tensor, mostly zeros, in a different memory
  // format.
  std::vector<at::Tensor> all = x.chunk(2, 1);
  at::Tensor last = all.back();
  for (torch::nn::Sequential& conv : convs_) {
    last = conv->forward(last);
    all.push_back(last);
  }
  return out_->forward(at::cat(all, 1));
}

Encoder::Encoder(const ModelOptions& options) : hidden_(options.hidden) {
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t channels = options.stages[options.stages.size() - 3 + i].out;
    input_proj_.push_back(register_module(fmt::format("input_proj_{}", i), conv_norm_relu(channels, hidden_)));
  }
  for (std::int64_t i = 0; i < options.encoder_layers; ++i) {
    layers_.push_back(register_module(fmt::format("layers_{}", i), std::make_shared<EncoderLayer>(options)));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    lateral_.push_back(register_module(fmt::format("lateral_{}", i), conv_norm_relu(hidden_, hidden_)));
    top_down_.push_back(register_module(fmt::format("top_down_{}", i), std::make_shared<FusionBlock>(options)));
    torch::nn::Sequential down = conv_norm_relu(hidden_, hidden_);
    add_conv_norm_relu(down, hidden_, hidden_, {.kernel = 3, .stride = 2, .groups = hidden_});
    downsample_.push_back(register_module(fmt::format("downsample_{}", i), down));
    bottom_up_.push_back(register_module(fmt::format("bottom_up_{}", i), std::make_shared<FusionBlock>(options)));
  }
}

at::Tensor Encoder::attend(const at::Tensor& coarsest) {
  const std::int64_t height = coarsest.size(2);
  const std::int64_t width = coarsest.size(3);
  if (!positions_.defined() || height != height_ || width != width_ || positions_.device() != coarsest.device()) {
    positions_ = sine_positions(height, width, hidden_).to(coarsest.device(), at::kFloat);
    height_ = height;
    width_ = width;
  }
  at::Tensor tokens = coarsest.flatten(2).transpose(1, 2);
  for (const auto& layer : layers_) tokens = layer->forward(tokens, positions_);
  return tokens.transpose(1, 2).reshape(coarsest.sizes()).contiguous(at::MemoryFormat::ChannelsLast);
}

std::vector<at::Tensor> Encoder::forward(const std::vector<at::Tensor>& scales) {
  std::vector<at::Tensor> x;
  for (std::size_t i = 0; i < 3; ++i) x.push_back(input_proj_[i]->forward(scales[i]));
  if (!layers_.empty()) x[2] = attend(x[2]);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t coarse = 2 - i;
    x[coarse] = lateral_[i]->forward(x[coarse]);
    const at::Tensor larger = nn::resize_nearest(x[coarse], {x[coarse - 1].size(2), x[coarse - 1].size(3)});
    x[coarse - 1] = top_down_[i]->forward(x[coarse - 1], larger);
  }
  for (std::size_t i = 0; i < 2; ++i) x[i + 1] = bottom_up_[i]->forward(downsample_[i]->forward(x[i]), x[i + 1]);
  return x;
}

}  // namespace lockstep::detection
