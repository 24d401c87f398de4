// SPDX-License-Identifier: Apache-2.0
// Sends one rank's state to all ranks: first a JSON list of the entries, then each tensor.
#include <ATen/ops/empty.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/objects.h"
#include "lockstep/parallel/join.h"
#include "lockstep/parallel/zero.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

/// Describes each entry as {"tensor": [dtype, sizes]} or as its plain value.
Json describe(const StateDict& state) {
  Json entries = Json::object();
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      entries[name] = {{"tensor", {static_cast<int>(tensor->scalar_type()), tensor->sizes().vec()}}};
    } else {
      std::visit(
          [&entries, key = name](const auto& plain) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(plain)>, at::Tensor>) entries[key] = plain;
          },
          value);
    }
  }
  return entries;
}

StateValue plain_value(const Json& entry) {
  if (entry.is_boolean()) return entry.get<bool>();
  if (entry.is_number_integer()) return entry.get<std::int64_t>();
  if (entry.is_number()) return entry.get<double>();
  return entry.get<std::string>();
}

at::Tensor empty_tensor(const Json& entry) {
  const auto dtype = static_cast<at::ScalarType>(entry.at(0).get<int>());
  return at::empty(entry.at(1).get<std::vector<std::int64_t>>(), dtype);
}

}  // namespace

JoinedState::JoinedState(Stateful& state, ProcessGroup& group) : state_(state), group_(group) {
  if (dynamic_cast<const ZeroRedundancyOptimizer*>(&state) == nullptr) return;
  throw UsageError("a sharded optimizer cannot take part in a Join: no rank has its whole state",
                   "use the optimizer without ZeroRedundancyOptimizer, or give every rank the same number of batches");
}

void JoinedState::after_join(int source) {
  const bool sends = group_.rank() == source;
  const StateDict own = sends ? state_.state_dict() : StateDict{};
  const Json entries = broadcast_object(group_, describe(own), source);
  StateDict state;
  for (const auto& [name, entry] : entries.items()) {
    if (!entry.is_object()) {
      state[name] = plain_value(entry);
      continue;
    }
    const at::Tensor value =
        sends ? std::get<at::Tensor>(own.at(name)).cpu().contiguous() : empty_tensor(entry.at("tensor"));
    group_.broadcast(value, source).wait();
    state[name] = value;
  }
  if (!sends) state_.load_state_dict(state);
}

}  // namespace lockstep
