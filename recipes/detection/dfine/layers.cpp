// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/layers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>

#include <cmath>

#include "detection/model/layers.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"

namespace lockstep::detection::dfine {
namespace {

constexpr double kNormEps = 1e-5;

torch::nn::Conv2d conv_of(std::int64_t in, std::int64_t out, ConvShape shape) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, shape.kernel)
                               .stride(shape.stride)
                               .padding((shape.kernel - 1) / 2)
                               .groups(shape.groups)
                               .bias(false));
}

}  // namespace

Activation activation_from_name(const std::string& name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "silu") return Activation::kSilu;
  throw UsageError(fmt::format("the activation is '{}'; it must be relu or silu", name));
}

at::Tensor activated(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kNone:
      break;
  }
  return x;
}

void FrozenBatchNorm2dImpl::reset() {
  weight = register_buffer("weight", at::ones({channels_}));
  bias = register_buffer("bias", at::zeros({channels_}));
  running_mean = register_buffer("running_mean", at::zeros({channels_}));
  running_var = register_buffer("running_var", at::ones({channels_}));
}

at::Tensor FrozenBatchNorm2dImpl::forward(const at::Tensor& x) {
  const at::Tensor scale = weight * (running_var + kNormEps).rsqrt();
  const at::Tensor shift = bias - running_mean * scale;
  const auto channelwise = [&](const at::Tensor& numbers) { return numbers.to(x.scalar_type()).view({1, -1, 1, 1}); };
  return x * channelwise(scale) + channelwise(shift);
}

Chain conv_bn_act(std::int64_t in, std::int64_t out, ConvShape shape, const BackboneLayer& layer) {
  Chain layers;
  layers->push_back("conv", conv_of(in, out, shape));
  if (layer.frozen) {
    layers->push_back("bn", FrozenBatchNorm2d(out));
  } else {
    layers->push_back("bn", nn::BatchNorm2d(out));
  }
  if (!layer.relu) return layers;
  layers->push_back("act", torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  if (layer.lab) layers->push_back("lab", Lab());
  return layers;
}

Chain conv_norm_act(std::int64_t in, std::int64_t out, ConvShape shape, Activation activation) {
  Chain layers;
  layers->push_back("conv", conv_of(in, out, shape));
  layers->push_back("norm", nn::BatchNorm2d(out));
  if (activation == Activation::kRelu) {
    layers->push_back("act", torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  } else if (activation == Activation::kSilu) {
    layers->push_back("act", torch::nn::SiLU());
  }
  return layers;
}

Mlp::Mlp(const std::vector<std::int64_t>& widths, Activation activation) : activation_(activation) {
  torch::nn::ModuleList list;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    layers_.emplace_back(widths[i], widths[i + 1]);
    list->push_back(layers_.back());
  }
  register_module("layers", list);
}

at::Tensor Mlp::forward(at::Tensor x) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = layers_[i]->forward(x);
    if (i + 1 < layers_.size()) x = activated(x, activation_);
  }
  return x;
}

MultiheadAttention::MultiheadAttention(std::int64_t hidden, std::int64_t heads)
    : heads_(heads),
      in_proj_weight_(register_parameter("in_proj_weight", at::empty({3 * hidden, hidden}))),
      in_proj_bias_(register_parameter("in_proj_bias", at::zeros({3 * hidden}))),
      out_proj_(register_module("out_proj", torch::nn::Linear(hidden, hidden))) {
  torch::nn::init::xavier_uniform_(in_proj_weight_);
  torch::nn::init::zeros_(out_proj_->bias);
}

at::Tensor MultiheadAttention::forward(const at::Tensor& x_BNH, const at::Tensor& positions, const at::Tensor& mask) {
  const std::int64_t batch = x_BNH.size(0);
  const std::int64_t count = x_BNH.size(1);
  const std::int64_t hidden = x_BNH.size(2);
  const auto heads_first = [&](const at::Tensor& tensor) {
    return tensor.transpose(1, 2).reshape({batch * heads_, count, -1});
  };
  const at::Tensor query_key =
      at::linear(x_BNH + positions, in_proj_weight_.narrow(0, 0, 2 * hidden), in_proj_bias_.narrow(0, 0, 2 * hidden))
          .view({batch, count, 2, heads_, -1});
  const at::Tensor values =
      at::linear(x_BNH, in_proj_weight_.narrow(0, 2 * hidden, hidden), in_proj_bias_.narrow(0, 2 * hidden, hidden));
  const double scale = 1 / std::sqrt(static_cast<double>(hidden / heads_));
  // Takes both in one operation: the gradient of a single part would be a full tensor, mostly zeros.
  const std::vector<at::Tensor> both = query_key.unbind(2);
  const at::Tensor query = heads_first(both[0]) * scale;
  const at::Tensor key = heads_first(both[1]);
  const at::Tensor value = heads_first(values.view({batch, count, heads_, -1}));
  at::Tensor scores = at::matmul(query, key.transpose(1, 2));
  if (mask.defined()) {
    scores = (scores.view({batch, heads_, count, count}) + mask).view({batch * heads_, count, count});
  }
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), value).view({batch, heads_, count, -1});
  return out_proj_->forward(mixed.transpose(1, 2).reshape({batch, count, hidden}));
}

}  // namespace lockstep::detection::dfine
