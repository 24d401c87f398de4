// SPDX-License-Identifier: Apache-2.0
// Finds a smaller world that fails in the same way.
#pragma once

#include <string>
#include <vector>

#include "sim/plan.h"
#include "sim/runner.h"

namespace lockstep::sim {

/// The parts omitted from a seed's plan.
struct Cut {
  std::vector<int> without = {};  ///< indices of the omitted faults
  int nodes = 0;                  ///< number of nodes to keep; 0: all
  int ranks = 0;                  ///< maximum ranks per node; 0: no limit
  std::int64_t steps = 0;         ///< number of steps to keep; 0: all
};

/// Returns the plan without the omitted parts. Pure.
[[nodiscard]] Plan smaller(Plan plan, const Cut& cut);
/// Returns the lockstep-sim options for this cut: "--without 0,2 --nodes 2".
[[nodiscard]] std::string to_text(const Cut& cut);

/// Tries one cut after another, keeping those that leave the violation unchanged except for its numbers.
[[nodiscard]] Cut shrink(const Plan& plan, const std::string& violation, const Scratch& scratch);

}  // namespace lockstep::sim
