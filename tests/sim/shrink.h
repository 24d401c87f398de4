// SPDX-License-Identifier: Apache-2.0
// Finds a smaller world with the same failure.
#pragma once

#include <string>
#include <vector>

#include "sim/plan.h"
#include "sim/runner.h"

namespace lockstep::sim {

/// The parts of a seed's plan that are left out.
struct Cut {
  std::vector<int> without = {};  ///< indices of the faults that are left out
  int nodes = 0;                  ///< the nodes that are kept; 0: all
  int ranks = 0;                  ///< the most ranks of a node; 0: no limit
  std::int64_t steps = 0;         ///< the steps that are kept; 0: all
};

/// Returns the plan without the parts that are cut. Pure.
[[nodiscard]] Plan smaller(Plan plan, const Cut& cut);
/// Returns the options of lockstep-sim that make this cut: "--without 0,2 --nodes 2".
[[nodiscard]] std::string to_text(const Cut& cut);

/// Tries one cut after the other, and keeps each after which the violation is the same except for its numbers.
[[nodiscard]] Cut shrink(const Plan& plan, const std::string& violation, const Scratch& scratch);

}  // namespace lockstep::sim
