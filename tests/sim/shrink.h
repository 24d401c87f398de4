// SPDX-License-Identifier: Apache-2.0
// A smaller world with the same failure.
#pragma once

#include <string>
#include <vector>

#include "sim/plan.h"
#include "sim/runner.h"

namespace lockstep::sim {

/// What is left out of a seed's plan.
struct Cut {
  std::vector<int> without = {};  ///< faults, by their place in the plan
  int nodes = 0;                  ///< so many only; 0: all
  int ranks = 0;                  ///< of a node at most; 0: as many as it has
  std::int64_t steps = 0;         ///< so many only; 0: all
};

/// The plan without what is cut. Pure.
[[nodiscard]] Plan smaller(Plan plan, const Cut& cut);
/// The options of lockstep-sim that make this cut: "--without 0,2 --nodes 2".
[[nodiscard]] std::string to_text(const Cut& cut);

/// Cuts one thing after the other, and keeps what leaves the violation the same but for its numbers.
[[nodiscard]] Cut shrink(const Plan& plan, const std::string& violation, const Scratch& scratch);

}  // namespace lockstep::sim
