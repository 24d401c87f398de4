// SPDX-License-Identifier: Apache-2.0
// Named tensors: tied weights once, and the strict way back from a StateDict.
#include "lockstep/tensor/named_tensors.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

/// The saved tensor for `name`; throws DataError where it does not fit `into`.
const at::Tensor& fitting_entry(const StateDict& state, const std::string& name, const at::Tensor& into) {
  const auto found = state.find(name);
  if (found == state.end()) {
    throw DataError(fmt::format("the saved state lacks '{}' ({})", name, describe(into)), "is it of another model?");
  }
  const auto* saved = std::get_if<at::Tensor>(&found->second);
  if (saved == nullptr) throw DataError(fmt::format("'{}' is no tensor in the saved state", name));
  if (saved->sizes() != into.sizes() || saved->scalar_type() != into.scalar_type()) {
    throw DataError(fmt::format("'{}' is {} in the saved state and {} here", name, describe(*saved), describe(into)),
                    "is it of another model?");
  }
  return *saved;
}

}  // namespace

namespace tensor {

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
  std::vector<std::string> names;
  for (const auto& [name, value] : items) {
    (void)fitting_entry(state, name, value);
    names.push_back(name);
  }
  const std::unordered_set<std::string> known(names.begin(), names.end());
  for (const auto& [name, value] : state) {
    if (known.count(name) == 0) {
      throw DataError(
          fmt::format("the saved state has '{}', which is unknown here{}", name, text::did_you_mean(name, names)),
          "is it of another model?");
    }
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, value] : items) value.copy_(fitting_entry(state, name, value));
}

}  // namespace lockstep
