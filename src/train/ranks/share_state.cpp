// SPDX-License-Identifier: Apache-2.0
// Sends a JSON string that lists the entries, followed by the tensors one by one.
#include "train/ranks/share_state.h"

#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>

#include "lockstep/comm/objects.h"
#include "train/ranks/same_outcome.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::json;

Json describe(const StateValue& value) {
  if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
    return {{"tensor", static_cast<int>(tensor->scalar_type())}, {"sizes", tensor->sizes().vec()}};
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return {{"double", __builtin_bit_cast(std::int64_t, *number)}};  // as bits: JSON has no infinity
  }
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return {{"int", *integer}};
  if (const auto* flag = std::get_if<bool>(&value)) return {{"bool", *flag}};
  return {{"text", std::get<std::string>(value)}};
}

StateValue from_description(const Json& json) {
  if (json.contains("tensor")) {
    const auto dtype = static_cast<at::ScalarType>(json["tensor"].get<int>());
    return at::empty(json["sizes"].get<std::vector<std::int64_t>>(), dtype);
  }
  if (json.contains("double")) return __builtin_bit_cast(double, json["double"].get<std::int64_t>());
  if (json.contains("int")) return json["int"].get<std::int64_t>();
  if (json.contains("bool")) return json["bool"].get<bool>();
  return json["text"].get<std::string>();
}

}  // namespace

StateDict share_state(const StateDict& state, ProcessGroup& group) {
  if (group.world_size() == 1) return state;
  Json list = Json::object();
  if (group.rank() == 0) {
    for (const auto& [name, value] : state) list[name] = describe(value);
  }
  list = broadcast_object(group, list, 0);  // binary, so that strings may hold any bytes
  StateDict shared = group.rank() == 0 ? state : StateDict{};
  for (const auto& [name, json] : list.items()) {
    if (group.rank() != 0) shared[name] = from_description(json);
    if (const auto* tensor = std::get_if<at::Tensor>(&shared.at(name))) group.broadcast(*tensor, 0).wait();
  }
  return shared;
}

StateDict share_state_of(const Job& job, const std::optional<Checkpoint>& checkpoint, const std::string& name) {
  StateDict state;
  do_on_main(job, [&] {
    if (checkpoint && checkpoint->has(name)) state = checkpoint->state(name);
  });
  return share_state(state, job.group());
}

}  // namespace lockstep::train
