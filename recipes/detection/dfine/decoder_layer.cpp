// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/decoder_layer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "detection/model/box.h"

namespace lockstep::detection::dfine {
namespace {

/// Initially, points are within half the box's size of its centre.
constexpr double kOffsetScale = 0.5;
/// The largest float16 number. The original code, which trains in float16, clamps to it.
constexpr double kLargest = 65504;

}  // namespace

CrossAttention::CrossAttention(const Options& options)
    : heads_(options.heads),
      count_(std::accumulate(options.points.begin(), options.points.end(), std::int64_t{0})),
      sampling_offsets_(register_module("sampling_offsets", torch::nn::Linear(options.hidden, heads_ * count_ * 2))),
      attention_weights_(register_module("attention_weights", torch::nn::Linear(options.hidden, heads_ * count_))) {
  std::copy(options.points.begin(), options.points.end(), points_.begin());
  std::vector<at::Tensor> scale;
  for (const std::int64_t points : options.points) {
    if (points > 0) scale.push_back(at::full({points}, 1 / static_cast<double>(points)));
  }
  num_points_scale_ = register_buffer("num_points_scale", at::cat(scale));
  reset_offsets(options);
}

/// Initially, each head looks in its own direction, and each point of a scale is farther away than the one before.
void CrossAttention::reset_offsets(const Options& options) {
  const at::Tensor angle = at::arange(heads_, at::kDouble) * (2 * std::numbers::pi / static_cast<double>(heads_));
  const at::Tensor direction = at::stack({angle.cos(), angle.sin()}, 1);
  const at::Tensor unit = direction / std::get<0>(direction.abs().max(1, /*keepdim=*/true));
  std::vector<at::Tensor> far;
  for (const std::int64_t points : options.points) far.push_back(at::arange(1, points + 1, at::kDouble));
  torch::nn::init::zeros_(sampling_offsets_->weight);
  torch::nn::init::zeros_(attention_weights_->weight);
  torch::nn::init::zeros_(attention_weights_->bias);
  const at::NoGradGuard guard;
  sampling_offsets_->bias.copy_((unit.unsqueeze(1) * at::cat(far).view({1, -1, 1})).flatten());
}

at::Tensor CrossAttention::forward(const at::Tensor& queries, const at::Tensor& boxes, const Memory& memory) {
  const std::int64_t batch = queries.size(0);
  const std::int64_t count = queries.size(1);
  const at::Tensor offsets =
      at_least_float(sampling_offsets_->forward(queries)).view({batch, count, heads_, count_, 2});
  const at::Tensor shares =
      at::softmax(at_least_float(attention_weights_->forward(queries)).view({batch, count, heads_, count_}), -1);
  const at::Tensor middle = boxes.narrow(2, 0, 2).view({batch, count, 1, 1, 2});
  const at::Tensor extent = boxes.narrow(2, 2, 2).view({batch, count, 1, 1, 2});
  const at::Tensor scale = num_points_scale_.unsqueeze(-1) * kOffsetScale;
  return sample_points(memory.tokens, middle + offsets * (extent * scale), shares, memory.sizes, points_);
}

DecoderLayer::DecoderLayer(const Options& options)
    : activation_(activation_from_name(options.activation)),
      self_attn_(register_module("self_attn", std::make_shared<MultiheadAttention>(options.hidden, options.heads))),
      norm1_(register_module("norm1", layer_norm(options.hidden))),
      cross_attn_(register_module("cross_attn", std::make_shared<CrossAttention>(options))),
      gateway_(register_module("gateway", std::make_shared<Gate<torch::nn::Linear>>(options.hidden))),
      linear1_(register_module("linear1", torch::nn::Linear(options.hidden, options.feedforward))),
      linear2_(register_module("linear2", torch::nn::Linear(options.feedforward, options.hidden))),
      norm3_(register_module("norm3", layer_norm(options.hidden))) {
  torch::nn::init::xavier_uniform_(linear1_->weight);
  torch::nn::init::xavier_uniform_(linear2_->weight);
}

at::Tensor DecoderLayer::forward(at::Tensor queries, const at::Tensor& positions, const at::Tensor& boxes,
                                 const Memory& memory, const at::Tensor& mask) {
  queries = norm1_->forward(queries + self_attn_->forward(queries, positions, mask));
  queries = gateway_->forward(queries, cross_attn_->forward(queries + positions, boxes, memory));
  const at::Tensor inner = activated(linear1_->forward(queries), activation_);
  return norm3_->forward((queries + linear2_->forward(inner)).clamp(-kLargest, kLargest));
}

}  // namespace lockstep::detection::dfine
