// SPDX-License-Identifier: Apache-2.0
#include "segmentation/model/lorm.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/init.h>

#include "lockstep/nn/linear.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

torch::nn::Conv2d projection(std::int64_t channels) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(channels, channels, 1));
  torch::nn::init::xavier_uniform_(conv->weight);
  torch::nn::init::zeros_(conv->bias);
  return conv;
}

/// A 1x1 convolution, applied to rows [..., C].
at::Tensor of_rows(const torch::nn::Conv2d& conv, const at::Tensor& rows) {
  return nn::linear(rows, conv->weight.flatten(1), conv->bias);
}

at::Tensor unit_rows(const at::Tensor& rows) { return rows / rows.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12); }

}  // namespace

at::Tensor foreground_of(const at::Tensor& labels, std::int64_t height, std::int64_t width) {
  const at::Tensor known = labels.masked_fill(labels == kUnlabelled, 0).to(at::kFloat).unsqueeze(1);
  return at::upsample_bilinear2d(known, {height, width}, /*align_corners=*/true).squeeze(1) > 0;
}

at::Tensor lorm_loss_plain(const LormInputs& inputs) {
  const at::Tensor& x = inputs.features;
  at::Tensor queries = inputs.queries;
  if (queries.dim() == 2) queries = at::zeros_like(x).masked_scatter(inputs.foreground.unsqueeze(-1), queries);
  const at::Tensor cosines = at::bmm(unit_rows(queries), unit_rows(inputs.keys).transpose(1, 2));
  const at::Tensor attention = at::softmax(cosines, -1) * inputs.foreground.unsqueeze(-1);
  const at::Tensor square = (x - inputs.gamma * at::bmm(attention, x)).square();
  return square.sum() / square.count_nonzero().clamp_min(1);
}

Lorm::Lorm(std::int64_t channels)
    : query_(register_module("query", projection(channels))),
      key_(register_module("key", projection(channels))),
      gamma_(register_parameter("gamma", at::ones({1}))) {}

LormInputs Lorm::inputs(const at::Tensor& features, const at::Tensor& labels) {
  const at::Tensor rows = features.permute({0, 2, 3, 1}).flatten(1, 2).contiguous();
  const at::Tensor foreground = foreground_of(labels, features.size(2), features.size(3)).flatten(1);
  at::Tensor asked = rows;
  if (rows.is_cpu()) asked = rows.flatten(0, 1).index_select(0, foreground.flatten().nonzero().squeeze(1));
  return {.features = rows,
          .queries = of_rows(query_, asked),
          .keys = of_rows(key_, rows),
          .gamma = gamma_,
          .foreground = foreground};
}

at::Tensor Lorm::forward(const at::Tensor& features, const at::Tensor& labels) {
  return lorm_loss(inputs(features, labels));
}

}  // namespace lockstep::segmentation
