// SPDX-License-Identifier: Apache-2.0
#include "detection/model/layers_at_once.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "lockstep/nn/linear.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::detection {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The elements of `dense` in memory order, as one dimension.
at::Tensor in_memory(const at::Tensor& dense) { return dense.as_strided({dense.numel()}, {1}, dense.storage_offset()); }

/// True if the elements of both have the same order in memory.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (std::int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

/// Cuts `all` into consecutive parts, each with the layout of its weight.
variable_list parts_of(const at::Tensor& all, const variable_list& weights) {
  variable_list parts;
  std::int64_t first = 0;
  for (const at::Tensor& weight : weights) {
    parts.push_back(all.as_strided(weight.sizes(), weight.strides(), first));
    first += weight.numel();
  }
  return parts;
}

class CastAll : public torch::autograd::Function<CastAll> {
 public:
  static variable_list forward(AutogradContext* context, const at::TensorList& weights, at::ScalarType type) {
    // Autograd does not treat the parts as views; nothing writes to them.
    const at::AutoDispatchBelowADInplaceOrView below;
    const variable_list kept = weights.vec();
    context->save_for_backward(kept);
    variable_list all;
    for (const at::Tensor& weight : kept) all.push_back(in_memory(weight));
    return parts_of(at::cat(all).to(type), kept);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list weights = context->get_saved_variables();
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto any = std::ranges::find_if(grads, [](const at::Tensor& grad) { return grad.defined(); });
    variable_list all;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor& weight = weights[i];
      if (!grads[i].defined()) {
        all.push_back(at::zeros({weight.numel()}, any->options()));
      } else if (same_layout(grads[i], weight)) {
        all.push_back(in_memory(grads[i]));
      } else {
        const at::Tensor dense = at::empty_strided(weight.sizes(), weight.strides(), grads[i].options());
        dense.copy_(grads[i]);
        all.push_back(in_memory(dense));
      }
    }
    variable_list found = parts_of(at::cat(all).to(weights.front().scalar_type()), weights);
    found.emplace_back();
    return found;
  }
};

/// True if there is a single replica on a GPU, with gradients.
bool serves(const at::Tensor& weight) {
  const Replica* replica = find_replica();
  return weight.is_cuda() && at::GradMode::is_enabled() && (replica == nullptr || replica->count() == 1);
}

template <class... Types>
bool is_one_of(const torch::nn::Module& layer) {
  return (... || (dynamic_cast<const Types*>(&layer) != nullptr));
}

}  // namespace

LayersAtOnce::LayersAtOnce(torch::nn::Module& net) : net_(net.weak_from_this()) {
  for (const auto& layer : net.modules(/*include_self=*/false)) {
    if (is_one_of<torch::nn::LinearImpl, nn::LinearImpl, torch::nn::Conv2dImpl, nn::BatchNorm2dImpl>(*layer)) {
      layers_.push_back(layer);
    }
  }
}

LayersAtOnce::Scope::Scope(const LayersAtOnce& layers) {
  for (const auto& one : layers.layers_) {
    const std::shared_ptr<torch::nn::Module> layer = one.lock();
    if (layer == nullptr) continue;
    alive_.push_back(layer);
    add(*layer);
  }
  // If memory runs out here, the layers are still unchanged.
  const std::vector<at::Tensor> copies = cast_weights();
  count_batches();
  for (std::size_t i = 0; i < weights_.size(); ++i) *weights_[i].first = copies[i];
  // A norm without num_batches_tracked does not count batches.
  for (const auto& [norm, count] : counts_) norm->num_batches_tracked = at::Tensor();
}

void LayersAtOnce::Scope::add(torch::nn::Module& layer) {
  const auto add_both = [&](auto* known) {
    if (known == nullptr) return false;
    add_weight(known->weight);
    add_weight(known->bias);
    return true;
  };
  if (add_both(dynamic_cast<torch::nn::LinearImpl*>(&layer))) return;
  if (add_both(dynamic_cast<nn::LinearImpl*>(&layer))) return;
  if (add_both(dynamic_cast<torch::nn::Conv2dImpl*>(&layer))) return;
  auto* norm = dynamic_cast<nn::BatchNorm2dImpl*>(&layer);
  if (norm == nullptr || !norm->options.momentum() || !norm->options.track_running_stats()) return;
  if (!norm->is_training() || !norm->num_batches_tracked.defined() || !serves(norm->num_batches_tracked)) return;
  counts_.emplace_back(norm, norm->num_batches_tracked);
}

void LayersAtOnce::Scope::add_weight(at::Tensor& member) {
  if (!member.defined() || !serves(member) || !member.requires_grad() || !member.is_leaf()) return;
  if (member.scalar_type() != at::kFloat || !member.is_non_overlapping_and_dense()) return;
  weights_.emplace_back(&member, member);
}

std::vector<at::Tensor> LayersAtOnce::Scope::cast_weights() {
  const tensor::AutocastState autocast = tensor::autocast_state(c10::kCUDA);
  if (!autocast.enabled) weights_.clear();
  if (weights_.empty()) return {};
  // Sorts by the largest power of two that divides the size, so that each weight begins at a multiple of its power;
  // matrix multiplication kernels need this alignment.
  std::ranges::stable_sort(weights_, std::ranges::greater{}, [](const auto& one) {
    return std::countr_zero(static_cast<std::uint64_t>(one.second.numel()));
  });
  variable_list weights;
  for (const auto& [member, weight] : weights_) weights.push_back(weight);
  return CastAll::apply(at::TensorList(weights), autocast.dtype);
}

void LayersAtOnce::Scope::count_batches() const {
  if (counts_.empty()) return;
  std::vector<at::Tensor> counts;
  for (const auto& [norm, count] : counts_) counts.push_back(count);
  at::_foreach_add_(counts, 1);
}

LayersAtOnce::Scope::~Scope() {
  for (const auto& [member, weight] : weights_) *member = weight;
  for (const auto& [norm, count] : counts_) norm->num_batches_tracked = count;
}

}  // namespace lockstep::detection
