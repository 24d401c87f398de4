// SPDX-License-Identifier: Apache-2.0
#include "detection/model/layers.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>

#include <cmath>

#include "lockstep/nn/attention.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/scale_shift.h"

namespace lockstep::detection {

void add_conv_norm(torch::nn::Sequential& to, std::int64_t in, std::int64_t out, ConvShape shape) {
  to->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, shape.kernel)
                                      .stride(shape.stride)
                                      .padding(shape.kernel / 2)
                                      .groups(shape.groups)
                                      .bias(false)));
  to->push_back(nn::BatchNorm2d(out));
}

void add_conv_norm_relu(torch::nn::Sequential& to, std::int64_t in, std::int64_t out, ConvShape shape) {
  add_conv_norm(to, in, out, shape);
  to->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
}

torch::nn::Sequential conv_norm_relu(std::int64_t in, std::int64_t out, ConvShape shape) {
  torch::nn::Sequential layers;
  add_conv_norm_relu(layers, in, out, shape);
  return layers;
}

torch::nn::Sequential mlp(const std::vector<std::int64_t>& widths) {
  torch::nn::Sequential layers;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    if (i > 0) layers->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
    layers->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
  }
  return layers;
}

torch::nn::LinearImpl& last_layer(const torch::nn::Sequential& layers) {
  return dynamic_cast<torch::nn::LinearImpl&>(*layers->ptr(layers->size() - 1));
}

nn::LayerNorm layer_norm(std::int64_t hidden) { return nn::LayerNorm(torch::nn::LayerNormOptions({hidden})); }

const double kPriorLogit = std::log(0.01 / 0.99);

SelfAttention::SelfAttention(std::int64_t hidden, std::int64_t heads)
    : heads_(heads),
      query_key_(register_module("query_key", nn::Linear(hidden, 2 * hidden))),
      value_(register_module("value", nn::Linear(hidden, hidden))),
      out_proj_(register_module("out_proj", nn::Linear(hidden, hidden))) {
  for (nn::Linear& layer : {std::ref(query_key_), std::ref(value_), std::ref(out_proj_)}) {
    torch::nn::init::xavier_uniform_(layer->weight);
    torch::nn::init::zeros_(layer->bias);
  }
}

at::Tensor SelfAttention::forward(const at::Tensor& x_BNH, const at::Tensor& positions, const at::Tensor& mask) {
  const std::int64_t batch = x_BNH.size(0);
  const std::int64_t count = x_BNH.size(1);
  const at::Tensor query_key = query_key_->forward(x_BNH + positions).view({batch, count, 2, heads_, -1});
  // Takes both in one operation: the gradient of a single part would be a full tensor, mostly zeros.
  const std::vector<at::Tensor> both = query_key.unbind(2);
  const at::Tensor query = both[0].transpose(1, 2);
  const at::Tensor key = both[1].transpose(1, 2);
  const at::Tensor value = value_->forward(x_BNH).view({batch, count, heads_, -1}).transpose(1, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
  return out_proj_->forward(nn::attention(query, key, value, {.scale = scale, .bias = mask, .hidden = {}}));
}

void LabImpl::reset() {
  scale = register_parameter("scale", at::ones({1}));
  bias = register_parameter("bias", at::zeros({1}));
}

at::Tensor LabImpl::forward(const at::Tensor& input) { return nn::scale_shift(input, scale, bias); }

}  // namespace lockstep::detection
