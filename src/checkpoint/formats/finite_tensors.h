// SPDX-License-Identifier: Apache-2.0
// Checks in place that the tensors of states are finite.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/formats/finite_rule.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::checkpoint {

/// States, or one rank's parts of them, by name.
using NamedStates = std::vector<std::pair<std::string, const StateDict*>>;

/// Returns NotFiniteWords::text() for the states that FiniteRule checks.
/// Blocks: until GPUs have delivered their tensors. Cost: one pass over the floating-point tensors of these states.
[[nodiscard]] std::string not_finite_in(const NamedStates& states, FiniteRule rule);

}  // namespace lockstep::checkpoint
