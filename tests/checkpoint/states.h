// SPDX-License-Identifier: Apache-2.0
// Small states whose values all depend on `seed`, and their comparison.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"

namespace lockstep::test {

inline CheckpointStates states_of(std::int64_t seed) {
  StateDict model;
  model["conv.weight"] = at::arange(24, at::kFloat).add(static_cast<double>(seed)).reshape({2, 3, 4});
  model["bn.num_batches_tracked"] = at::full({}, seed, at::kLong);
  StateDict trainer;
  trainer["step"] = seed;
  trainer["best"] = 0.25 + static_cast<double>(seed);
  trainer["stage"] = std::string("warm-up");
  trainer["finished"] = false;
  return {{"model", model}, {"trainer", trainer}};
}

inline bool same_value(const StateValue& a, const StateValue& b) {
  const auto* left = std::get_if<at::Tensor>(&a);
  const auto* right = std::get_if<at::Tensor>(&b);
  if (left == nullptr || right == nullptr)
    return left == right && a.index() == b.index() && [&] {
      if (const auto* x = std::get_if<std::int64_t>(&a)) return *x == std::get<std::int64_t>(b);
      if (const auto* x = std::get_if<double>(&a)) return *x == std::get<double>(b);
      if (const auto* x = std::get_if<bool>(&a)) return *x == std::get<bool>(b);
      return std::get<std::string>(a) == std::get<std::string>(b);
    }();
  return left->scalar_type() == right->scalar_type() && left->sizes() == right->sizes() && at::equal(*left, *right);
}

inline bool same_state(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a) {
    const auto found = b.find(name);
    if (found == b.end() || !same_value(value, found->second)) return false;
  }
  return true;
}

/// True if every entry of `checkpoint` equals the one in states_of(seed).
inline bool is_of(const Checkpoint& checkpoint, std::int64_t seed) {
  const CheckpointStates expected = states_of(seed);
  return checkpoint.names().size() == expected.size() && same_state(checkpoint.state("model"), expected.at("model")) &&
         same_state(checkpoint.state("trainer"), expected.at("trainer"));
}

}  // namespace lockstep::test
