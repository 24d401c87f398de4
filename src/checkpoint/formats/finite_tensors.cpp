// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/formats/finite_tensors.h"

#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>

#include <optional>

namespace lockstep::checkpoint {
namespace {

std::optional<DType> floating_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

/// Returns the entry's floating-point tensor; null if it is not one, or cannot be saved (the writer reports that).
const at::Tensor* floating_tensor(const StateValue& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  if (tensor == nullptr || !tensor->defined() || tensor->layout() != at::kStrided || tensor->is_meta()) return nullptr;
  return floating_type(*tensor) ? tensor : nullptr;
}

NotFiniteCount count_in(const at::Tensor& tensor) {
  if (tensor.device().is_cpu() && tensor.is_non_overlapping_and_dense()) {
    return count_not_finite(*floating_type(tensor), tensor.data_ptr(), tensor.nbytes());
  }
  const at::Tensor values = tensor.detach();
  return {.nan = at::isnan(values).sum().item<std::int64_t>(),
          .infinite = at::isinf(values).sum().item<std::int64_t>()};
}

template <class Visit>
void for_floating_tensors(const NamedStates& states, Visit&& visit) {
  for (const auto& [state, entries] : states) {
    if (!FiniteRule::looks_at(state)) continue;
    for (const auto& [entry, value] : *entries) {
      if (const at::Tensor* tensor = floating_tensor(value)) visit(state, entry, *tensor);
    }
  }
}

}  // namespace

std::string not_finite_in(const NamedStates& states, FiniteRule rule) {
  for_floating_tensors(states, [&](const auto& state, const auto& entry, const auto&) { rule.add(state, entry); });
  NotFiniteWords words;
  for_floating_tensors(states, [&](const auto& state, const auto& entry, const at::Tensor& tensor) {
    const NotFiniteCount found = count_in(tensor);
    if (rule.is_spoilt(state, entry, found)) words.add(state, entry, found, tensor.numel());
  });
  return words.text();
}

}  // namespace lockstep::checkpoint
