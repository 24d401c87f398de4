// SPDX-License-Identifier: Apache-2.0
// The named tensors of a model, so that optimizers, the reducer and checkpoints need no torch/nn header.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/tensor/state_dict.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Names with their tensors, in the model's registration order. Each tensor occurs once, under its first name, unless a
/// function says that it takes or returns tied weights under all their names.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

namespace tensor {

/// Returns `items` without repeated tensors (tied weights) and undefined tensors.
[[nodiscard]] NamedTensors without_repeats(NamedTensors items);

/// Returns the module behind a torch::nn::ModuleHolder or a smart pointer, or the module itself.
template <class Model>
decltype(auto) module_of(Model& model) {
  if constexpr (requires { model.named_parameters(); }) {
    return (model);
  } else {
    return (*model);
  }
}

/// Returns the entries of a torch::OrderedDict, in its order.
template <class OrderedDict>
[[nodiscard]] NamedTensors from_ordered_dict(const OrderedDict& dict) {
  NamedTensors items;
  for (const auto& item : dict) items.emplace_back(item.key(), item.value());
  return without_repeats(std::move(items));
}

/// Finds two entries of `state` for the same tensor of `items` (tied weights) that are not bit-identical. Returns their
/// names, "'a' and 'b'", or "".
[[nodiscard]] std::string differing_ties(const NamedTensors& items, const StateDict& state);

}  // namespace tensor

/// Returns the parameters of a torch module, of its holder or pointer, or of a DistributedDataParallel.
template <class Model>
[[nodiscard]] NamedTensors named_parameters_of(Model& model) {
  return tensor::from_ordered_dict(tensor::module_of(model).named_parameters());
}

/// Returns the buffers (batch-norm statistics, ...) of a torch module, of its holder or pointer, or of a
/// DistributedDataParallel.
template <class Model>
[[nodiscard]] NamedTensors named_buffers_of(Model& model) {
  return tensor::from_ordered_dict(tensor::module_of(model).named_buffers());
}

/// Returns parameters and buffers, with tied weights under all their names, because a weights file may use any of them.
template <class Model>
[[nodiscard]] NamedTensors named_entries_of(Model& model) {
  NamedTensors items;
  for (const auto& item : tensor::module_of(model).named_parameters()) items.emplace_back(item.key(), item.value());
  for (const auto& item : tensor::module_of(model).named_buffers()) items.emplace_back(item.key(), item.value());
  std::erase_if(items, [](const auto& item) { return !item.second.defined(); });
  return items;
}

/// Returns `items` as a StateDict; the tensors are shared, not copied.
[[nodiscard]] StateDict to_state_dict(const NamedTensors& items);

/// Copies the entries of `state` into the tensors of the same names. If `items` has a tensor under several names,
/// `state` needs one of them. Throws: DataError naming the first entry that is missing, unknown or of a different shape
/// or dtype, or two entries of one tensor that differ. In that case nothing is copied.
void load_tensors(const NamedTensors& items, const StateDict& state);

/// Returns the parameters and buffers of a model, in name order; the tensors are shared, not copied. Tied weights have
/// all their names, as in PyTorch, whose strict load_state_dict() needs each one.
template <class Model>
[[nodiscard]] StateDict model_state_dict(Model& model) {
  return to_state_dict(named_entries_of(model));
}

/// Copies a model_state_dict() into a model. Tied weights may have any or all of their names, as in PyTorch's files.
/// Throws: the DataErrors of load_tensors(); in that case nothing is copied.
template <class Model>
void load_model_state_dict(Model& model, const StateDict& state) {
  load_tensors(named_entries_of(model), state);
}

}  // namespace lockstep

#pragma GCC visibility pop
