// SPDX-License-Identifier: Apache-2.0
// Whether the tensors of states are finite, looked at where they lie.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/formats/finite_rule.h"
#include "lockstep/tensor/state_dict.h"

namespace lockstep::checkpoint {

/// States, or what one rank has of them, by name.
using NamedStates = std::vector<std::pair<std::string, const StateDict*>>;

/// Returns NotFiniteWords::text() for the states that FiniteRule looks at.
/// Blocks: until devices have delivered. Cost: one pass over their floating tensors.
[[nodiscard]] std::string not_finite_in(const NamedStates& states, FiniteRule rule);

}  // namespace lockstep::checkpoint
