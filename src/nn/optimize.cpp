// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimize.h"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/norm_act.h"
#include "nn/replace.h"

namespace lockstep::nn {
namespace {

using detail::as;
using detail::Layers;
using detail::put;

/// A chain that begins with a batch norm.
struct Chain {
  std::size_t length = 1;
  BatchNormReLUOptions then;
  std::string what = "BatchNorm2d";
  std::string obstacle;  ///< the reason why the chain is left as it is; empty if it is replaced
};

bool is_two_by_two(const torch::nn::MaxPool2dOptions& options) {
  const auto all = [](const auto& values, std::int64_t value) {
    return std::all_of(values->begin(), values->end(), [value](std::int64_t one) { return one == value; });
  };
  return all(options.kernel_size(), 2) && all(options.stride(), 2) && all(options.padding(), 0) &&
         all(options.dilation(), 1) && !options.ceil_mode();
}

/// Finds the layers after the batch norm at `first`.
Chain chain_at(const Layers& layers, std::size_t first, std::int64_t channels) {
  Chain chain;
  if (const auto* dropout = as<torch::nn::DropoutImpl>(layers, first + chain.length)) {
    chain.then.dropout = dropout->options.p();
    chain.what += " + Dropout";
    ++chain.length;
  }
  if (as<torch::nn::ReLUImpl>(layers, first + chain.length) == nullptr) {
    chain.obstacle = "no ReLU follows";
    return chain;
  }
  chain.what += " + ReLU";
  ++chain.length;
  const auto* pool = as<torch::nn::MaxPool2dImpl>(layers, first + chain.length);
  if (pool != nullptr && is_two_by_two(pool->options)) {
    chain.then.pool = true;
    chain.what += " + MaxPool2d";
    ++chain.length;
  }
  if (channels % 8 != 0) chain.obstacle = fmt::format("{} channels are not a multiple of 8", channels);
  return chain;
}

/// Creates the fused layer for the chain at `index`; null if its first layer is not a `Norm`.
template <class Norm>
std::shared_ptr<BatchNormReLU2dImpl> fused_from(const Layers& layers, std::size_t index, const Chain& chain) {
  const auto* norm = as<Norm>(layers, index);
  return norm == nullptr ? nullptr : std::make_shared<BatchNormReLU2dImpl>(*norm, chain.then);
}

std::optional<std::int64_t> channels_of_norm(const Layers& layers, std::size_t index) {
  if (const auto* ours = as<BatchNorm2dImpl>(layers, index)) return ours->options.num_features();
  if (const auto* torchs = as<torch::nn::BatchNorm2dImpl>(layers, index)) return torchs->options.num_features();
  return std::nullopt;
}

void fuse(torch::nn::SequentialImpl& sequential, std::size_t index, const Layers& layers, const Chain& chain) {
  auto fused = fused_from<BatchNorm2dImpl>(layers, index, chain);
  if (!fused) fused = fused_from<torch::nn::BatchNorm2dImpl>(layers, index, chain);
  put(sequential, index, std::move(fused));
  detail::put_nothing(sequential, index + 1, chain.length - 1);
}

/// Replaces the convolution at `index` if there are kernels for it.
bool replace_conv(torch::nn::SequentialImpl& sequential, std::size_t index, const Layers& layers) {
  const auto* conv = as<torch::nn::Conv2dImpl>(layers, index);
  if (conv == nullptr || !Conv2dImpl::has_kernel(*conv)) return false;
  put(sequential, index, std::make_shared<Conv2dImpl>(*conv));
  return true;
}

void optimize_sequential(torch::nn::SequentialImpl& sequential, const std::string& prefix, Optimized& done) {
  const Layers layers = sequential.children();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = prefix + sequential.named_children()[i].key();
    if (replace_conv(sequential, i, layers)) done.fused.push_back({name, "Conv2d"});
    const std::optional<std::int64_t> channels = channels_of_norm(layers, i);
    if (!channels) {
      const std::optional<detail::Replaced> other = detail::replace_layer(sequential, i, layers);
      if (!other) continue;
      done.fused.push_back({name, other->what});
      i += other->length - 1;
      continue;
    }
    const Chain chain = chain_at(layers, i, *channels);
    if (!chain.obstacle.empty()) {
      done.left.push_back({name, fmt::format("{}: {}", chain.what, chain.obstacle)});
      continue;
    }
    fuse(sequential, i, layers, chain);
    done.fused.push_back({name, chain.what});
    i += chain.length - 1;
  }
}

void visit(torch::nn::Module& module, const std::string& prefix, Optimized& done) {
  auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&module);
  if (sequential != nullptr) optimize_sequential(*sequential, prefix, done);
  for (const auto& child : module.named_children()) {
    const Layers alone = {child.value()};
    const std::string what = channels_of_norm(alone, 0) ? "BatchNorm2d" : detail::replaceable_alone(*child.value());
    if (sequential == nullptr && !what.empty()) {
      done.left.push_back({prefix + child.key(), what + ": it is not inside a torch::nn::Sequential"});
    }
    visit(*child.value(), prefix + child.key() + ".", done);
  }
}

}  // namespace

Optimized optimize(torch::nn::Module& model) {
  Optimized done;
  visit(model, "", done);
  return done;
}

}  // namespace lockstep::nn
