// SPDX-License-Identifier: Apache-2.0
#include "detection/dfine/fuse.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <optional>

#include "detection/dfine/encoder.h"
#include "detection/dfine/layers.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/batch_norm.h"

namespace lockstep::detection::dfine {
namespace {

/// A batch norm in evaluation: x * scale + shift, by channel.
struct Affine {
  at::Tensor scale;
  at::Tensor shift;
};

template <class Norm>
Affine affine_of(const Norm& norm, double eps) {
  const at::Tensor scale = norm.weight.detach().to(at::kDouble) / (norm.running_var.to(at::kDouble) + eps).sqrt();
  return {.scale = scale, .shift = norm.bias.detach().to(at::kDouble) - norm.running_mean.to(at::kDouble) * scale};
}

std::optional<Affine> affine_of(const torch::nn::Module& layer) {
  if (const auto* norm = dynamic_cast<const nn::BatchNorm2dImpl*>(&layer)) return affine_of(*norm, norm->options.eps());
  if (const auto* norm = dynamic_cast<const FrozenBatchNorm2dImpl*>(&layer)) return affine_of(*norm, 1e-5);
  return std::nullopt;
}

/// The first convolution of a chain, fused with the batch norm after it, in float64; none for other chains.
struct Fused {
  at::Tensor weight;
  at::Tensor bias;
};
std::optional<Fused> fused_front(torch::nn::SequentialImpl& chain) {
  if (chain.size() < 2) return std::nullopt;
  const auto layers = chain.children();
  const auto* conv = dynamic_cast<const torch::nn::Conv2dImpl*>(layers[0].get());
  const std::optional<Affine> norm = affine_of(*layers[1]);
  if (conv == nullptr || !norm || conv->options.bias()) return std::nullopt;
  return Fused{.weight = conv->weight.detach().to(at::kDouble) * norm->scale.view({-1, 1, 1, 1}), .bias = norm->shift};
}

/// A convolution like `old`, but with a bias.
torch::nn::Conv2d conv_of(const torch::nn::Conv2dImpl& old, const Fused& fused) {
  const at::Tensor& like = old.weight;
  torch::nn::Conv2d conv(
      torch::nn::Conv2dOptions(old.options.in_channels(), old.options.out_channels(), old.options.kernel_size())
          .stride(old.options.stride())
          .padding(old.options.padding())
          .groups(old.options.groups()));
  conv->to(like.device(), like.scalar_type());
  conv->weight.copy_(fused.weight);
  conv->bias.copy_(fused.bias);
  conv->weight.set_data(conv->weight.detach().contiguous(like.suggest_memory_format()));
  conv->eval();
  return conv;
}

template <class Layer>
void put(torch::nn::SequentialImpl& into, std::size_t index, std::shared_ptr<Layer> layer) {
  into.replace_module(into.named_children()[index].key(), layer);
  *(into.begin() + static_cast<std::ptrdiff_t>(index)) = torch::nn::AnyModule(std::move(layer));
}

bool fuse_chain(torch::nn::SequentialImpl& chain) {
  const std::optional<Fused> fused = fused_front(chain);
  if (!fused) return false;
  const auto& conv = dynamic_cast<const torch::nn::Conv2dImpl&>(*chain.children()[0]);
  put(chain, 0, conv_of(conv, *fused).ptr());
  put(chain, 1, std::make_shared<torch::nn::IdentityImpl>());
  return true;
}

}  // namespace

torch::nn::Conv2d joined_conv(torch::nn::SequentialImpl& three, torch::nn::SequentialImpl& one) {
  const at::NoGradGuard guard;
  const std::optional<Fused> large = fused_front(three);
  const std::optional<Fused> small = fused_front(one);
  if (!large || !small) throw InternalError("the branches are not convolutions with batch norm");
  const auto& conv = dynamic_cast<const torch::nn::Conv2dImpl&>(*three.children()[0]);
  return conv_of(conv, {.weight = large->weight + at::constant_pad_nd(small->weight, {1, 1, 1, 1}),
                        .bias = large->bias + small->bias});
}

std::int64_t fuse(torch::nn::Module& network) {
  const at::NoGradGuard guard;
  std::int64_t fewer = 0;
  for (const auto& module : network.modules(/*include_self=*/false)) {
    auto* block = dynamic_cast<VggBlock*>(module.get());
    if (block != nullptr && block->join()) fewer += 3;
  }
  for (const auto& module : network.modules(/*include_self=*/false)) {
    auto* chain = dynamic_cast<torch::nn::SequentialImpl*>(module.get());
    if (chain != nullptr && fuse_chain(*chain)) ++fewer;
  }
  return fewer;
}

}  // namespace lockstep::detection::dfine
