// SPDX-License-Identifier: Apache-2.0
#include "captioning/model/layers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <torch/nn/init.h>

#include <cmath>

#include "lockstep/nn/linear.h"
#include "lockstep/nn/plain_operators.h"

namespace lockstep::captioning {

namespace {

torch::nn::Linear xavier(std::int64_t in, std::int64_t out, std::int64_t parts = 1) {
  torch::nn::Linear layer(in, out);
  for (at::Tensor& part : layer->weight.detach().chunk(parts)) torch::nn::init::xavier_uniform_(part);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

}  // namespace

nn::Linear linear(std::int64_t in, std::int64_t out, std::int64_t parts) {
  return nn::Linear(std::make_shared<nn::LinearImpl>(*xavier(in, out, parts)));
}

nn::Linear linear_without_bias(std::int64_t in, std::int64_t out) {
  nn::Linear layer(torch::nn::LinearOptions(in, out).bias(false));
  torch::nn::init::xavier_uniform_(layer->weight);
  return layer;
}

torch::nn::Embedding embedding(std::int64_t ids, std::int64_t width) {
  torch::nn::Embedding layer(ids, width);
  torch::nn::init::xavier_uniform_(layer->weight);
  return layer;
}

nn::LayerNorm layer_norm(std::int64_t width) { return nn::LayerNorm(torch::nn::LayerNormOptions({width})); }

at::Tensor normed(nn::LayerNorm& layer, const at::Tensor& x) {
  constexpr std::int64_t kSmall = 4096;
  if (!x.device().is_cpu() || nn::uses_plain_operators()) return layer->forward(x);
  if (x.numel() >= kSmall) return layer->forward(x.contiguous());
  const at::Tensor rows = x.to(at::kFloat).reshape({-1, layer->weight.size(0)});
  return at::group_norm(rows, 1, layer->weight, layer->bias, layer->options.eps()).view(x.sizes());
}

PairLinear::PairLinear(std::int64_t in, std::int64_t shared, std::int64_t out) : in_(in) {
  const nn::Linear both = linear(in + shared, out);
  weight_ = register_parameter("weight", both->weight.detach());
  bias_ = register_parameter("bias", both->bias.detach());
}

at::Tensor PairLinear::of_shared(const at::Tensor& shared) const {
  return nn::linear(shared, weight_.narrow(1, in_, weight_.size(1) - in_), bias_);
}

at::Tensor PairLinear::of(const at::Tensor& x) const { return nn::linear(x, weight_.narrow(1, 0, in_)); }

FeedForward::FeedForward(std::int64_t dim, std::int64_t middle, double dropout)
    : first_(register_module("first", nn::LinearReLU(*xavier(dim, middle), nn::LinearReLUOptions{.dropout = dropout}))),
      second_(register_module("second", linear(middle, dim))) {}

at::Tensor FeedForward::forward(const at::Tensor& x) { return second_->forward(first_->forward(x)); }

at::Tensor heads_first(const at::Tensor& x_BNC, std::int64_t heads) {
  return x_BNC.view({x_BNC.size(0), x_BNC.size(1), heads, -1}).transpose(1, 2);
}

double query_scale(std::int64_t dim, std::int64_t heads) {
  const std::int64_t depth = dim / heads;
  return 1 / std::sqrt(static_cast<double>(depth));
}

at::Tensor sinusoids(std::int64_t first, std::int64_t count, std::int64_t dim) {
  const at::Tensor positions = at::arange(first, first + count, at::kDouble).unsqueeze(1);
  const at::Tensor rates = (at::arange(0, dim, 2, at::kDouble) * (-std::log(10000.0) / static_cast<double>(dim))).exp();
  const at::Tensor angles = positions * rates;
  return at::stack({angles.sin(), angles.cos()}, 2).view({count, dim}).to(at::kFloat);
}

at::Tensor grid_sinusoids(std::int64_t height, std::int64_t width, std::int64_t dim) {
  const at::Tensor rows = sinusoids(0, height, dim / 2).unsqueeze(1).expand({height, width, dim / 2});
  const at::Tensor columns = sinusoids(0, width, dim / 2).unsqueeze(0).expand({height, width, dim / 2});
  return at::cat({rows, columns}, 2).view({height * width, dim});
}

at::Tensor mean_of_rows(const at::Tensor& x_BLC, const at::Tensor& mask) {
  if (!mask.defined()) return x_BLC.mean(1);
  const at::Tensor there = mask.unsqueeze(2).to(x_BLC.scalar_type());
  return (x_BLC * there).sum(1) / there.sum(1);
}

namespace {

/// Draws one column of each row, with `shares` as probabilities. On a device, it compares exponential random numbers,
/// which gives the same draws as libtorch's multinomial without the checks that wait for the device.
at::Tensor drawn_by(const at::Tensor& shares) {
  if (shares.is_cpu()) return at::multinomial(shares, 1);
  return shares.div(at::empty_like(shares).exponential_()).argmax(-1, /*keepdim=*/true);
}

}  // namespace

at::Tensor partly_drawn(const at::Tensor& words, const at::Tensor& logits, double probability) {
  const at::NoGradGuard guard;
  const at::Tensor shares = at::softmax(logits.to(at::kFloat), -1).flatten(0, -2);
  const at::Tensor drawn = drawn_by(at::nan_to_num(shares, /*nan=*/1.0)).view(words.sizes());
  const at::Tensor coins = at::rand(words.sizes(), words.options().dtype(at::kFloat));
  return at::where(coins < probability, drawn, words);
}

}  // namespace lockstep::captioning
