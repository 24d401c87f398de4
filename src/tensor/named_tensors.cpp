// SPDX-License-Identifier: Apache-2.0
// Named tensors: removes duplicates of tied weights, and checks a StateDict strictly before it is loaded.
#include "lockstep/tensor/named_tensors.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

/// A tensor and its names, several for tied weights.
struct Named {
  at::Tensor value;
  std::vector<std::string> names;
};

std::vector<Named> by_tensor(const NamedTensors& items) {
  std::vector<Named> all;
  std::unordered_map<const void*, std::size_t> places;
  for (const auto& [name, value] : items) {
    const auto [at, is_new] = places.emplace(value.unsafeGetTensorImpl(), all.size());
    if (is_new) all.push_back({value, {}});
    all[at->second].names.push_back(name);
  }
  return all;
}

/// Returns the saved tensor for `name`. Throws: DataError if it does not fit `into`.
const at::Tensor& fitting_entry(const StateDict& state, const std::string& name, const at::Tensor& into) {
  const auto found = state.find(name);
  const auto* saved = std::get_if<at::Tensor>(&found->second);
  if (saved == nullptr) throw DataError(fmt::format("'{}' is not a tensor in the saved state", name));
  if (saved->sizes() != into.sizes() || saved->scalar_type() != into.scalar_type()) {
    throw DataError(fmt::format("'{}' is {} in the saved state but {} here", name, describe(*saved), describe(into)),
                    "is it from another model?");
  }
  return *saved;
}

/// Returns the saved tensor under any of its names. All entries under its names must fit.
const at::Tensor& fitting_entry(const StateDict& state, const Named& named) {
  const at::Tensor* saved = nullptr;
  for (const std::string& name : named.names) {
    if (state.count(name) == 0) continue;
    const at::Tensor& entry = fitting_entry(state, name, named.value);
    if (saved == nullptr) saved = &entry;
  }
  if (saved != nullptr) return *saved;
  throw DataError(fmt::format("the saved state lacks '{}' ({})", named.names.front(), describe(named.value)),
                  "is it from another model?");
}

/// Returns true if the tensors are equal bit for bit, including NaNs.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (a.is_same(b)) return true;
  const at::Tensor left = a.contiguous().cpu();
  const at::Tensor right = b.contiguous().cpu();
  return left.nbytes() == 0 || std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

}  // namespace

namespace tensor {

std::string differing_ties(const NamedTensors& items, const StateDict& state) {
  for (const Named& named : by_tensor(items)) {
    const std::pair<const std::string, StateValue>* first = nullptr;
    for (const std::string& name : named.names) {
      const auto entry = state.find(name);
      const auto* value = entry == state.end() ? nullptr : std::get_if<at::Tensor>(&entry->second);
      if (value == nullptr) continue;
      if (first == nullptr) {
        first = &*entry;
      } else if (!same_bits(std::get<at::Tensor>(first->second), *value)) {
        return fmt::format("'{}' and '{}'", first->first, name);
      }
    }
  }
  return "";
}

NamedTensors without_repeats(NamedTensors items) {
  std::unordered_set<const void*> seen;
  NamedTensors kept;
  kept.reserve(items.size());
  for (auto& item : items) {
    if (item.second.defined() && seen.insert(item.second.unsafeGetTensorImpl()).second) kept.push_back(std::move(item));
  }
  return kept;
}

}  // namespace tensor

StateDict to_state_dict(const NamedTensors& items) {
  StateDict state;
  for (const auto& [name, value] : items) state.emplace(name, value.detach());
  return state;
}

void load_tensors(const NamedTensors& items, const StateDict& state) {
  const std::vector<Named> tensors = by_tensor(items);
  for (const Named& named : tensors) (void)fitting_entry(state, named);
  if (const std::string names = tensor::differing_ties(items, state); !names.empty()) {
    throw DataError(fmt::format("{} are one tensor here but differ in the saved state", names),
                    "tied weights have several names but one value: is it from another model?");
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : items) names.push_back(name);
  const std::unordered_set<std::string> known(names.begin(), names.end());
  for (const auto& [name, value] : state) {
    if (known.count(name) == 0) {
      throw DataError(
          fmt::format("the saved state has '{}', which is unknown here{}", name, text::did_you_mean(name, names)),
          "is it from another model?");
    }
  }
  const at::NoGradGuard no_grad;
  for (const Named& named : tensors) named.value.copy_(fitting_entry(state, named));
}

}  // namespace lockstep
