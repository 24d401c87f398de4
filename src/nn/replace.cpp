// SPDX-License-Identifier: Apache-2.0
#include "nn/replace.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "lockstep/nn/activation.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/linear_relu.h"

namespace lockstep::nn::detail {
namespace {

/// Puts `ours` into the same mode (training or evaluation) as `layer`, and returns it.
template <class Ours>
std::shared_ptr<Ours> in_mode_of(const torch::nn::Module& layer, std::shared_ptr<Ours> ours) {
  ours->train(layer.is_training());
  return ours;
}

std::optional<Replaced> replace_linear(torch::nn::SequentialImpl& sequential, std::size_t index, const Layers& layers) {
  const auto* linear = as<torch::nn::LinearImpl>(layers, index);
  if (linear == nullptr) return std::nullopt;
  Replaced chain{.length = 1, .what = "Linear"};
  LinearReLUOptions then;
  const auto take_dropout = [&] {
    const auto* dropout = as<torch::nn::DropoutImpl>(layers, index + chain.length);
    if (dropout == nullptr || then.dropout > 0) return;
    then.dropout = dropout->options.p();
    chain.what += " + Dropout";
    ++chain.length;
  };
  take_dropout();
  if (as<torch::nn::ReLUImpl>(layers, index + chain.length) == nullptr) return std::nullopt;
  chain.what += " + ReLU";
  ++chain.length;
  take_dropout();
  put(sequential, index, std::make_shared<LinearReLUImpl>(*linear, then));
  put_nothing(sequential, index + 1, chain.length - 1);
  return chain;
}

}  // namespace

void put_nothing(torch::nn::SequentialImpl& into, std::size_t first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) put(into, first + i, in_mode_of(into, torch::nn::Identity().ptr()));
}

std::optional<Replaced> replace_layer(torch::nn::SequentialImpl& sequential, std::size_t index, const Layers& layers) {
  if (auto chain = replace_linear(sequential, index, layers)) return chain;
  if (const auto* linear = as<torch::nn::LinearImpl>(layers, index)) {
    put(sequential, index, std::make_shared<LinearImpl>(*linear));
    return Replaced{.length = 1, .what = "Linear"};
  }
  if (const auto* norm = as<torch::nn::LayerNormImpl>(layers, index)) {
    put(sequential, index, std::make_shared<LayerNormImpl>(*norm));
    return Replaced{.length = 1, .what = "LayerNorm"};
  }
  if (const auto* dropout = as<torch::nn::DropoutImpl>(layers, index)) {
    put(sequential, index, in_mode_of(*dropout, std::make_shared<DropoutImpl>(dropout->options.p())));
    return Replaced{.length = 1, .what = "Dropout"};
  }
  // libtorch's in-place ReLU moves just as little memory, and our layer could not fall back to it for small tensors.
  const auto* relu = as<torch::nn::ReLUImpl>(layers, index);
  if (relu == nullptr || relu->options.inplace()) return std::nullopt;
  put(sequential, index, in_mode_of(*relu, std::make_shared<ReLUImpl>()));
  return Replaced{.length = 1, .what = "ReLU"};
}

std::string replaceable_alone(const torch::nn::Module& layer) {
  if (typeid(layer) == typeid(torch::nn::LayerNormImpl)) return "LayerNorm";
  if (typeid(layer) == typeid(torch::nn::DropoutImpl)) return "Dropout";
  if (typeid(layer) == typeid(torch::nn::LinearImpl)) return "Linear";
  return {};
}

}  // namespace lockstep::nn::detail
