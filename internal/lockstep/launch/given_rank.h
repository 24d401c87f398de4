// SPDX-License-Identifier: Apache-2.0
// The rank that another launcher gives this process by environment variables.
#pragma once

#include <optional>
#include <string>

#pragma GCC visibility push(default)

namespace lockstep {

/// The rank in the environment.
struct GivenRank {
  int rank = 0;
  int world_size = 1;
  std::string variables;      ///< for messages: "RANK and WORLD_SIZE"
  bool has_launcher = false;  ///< a launcher with its own store watches this rank: lockstep run or torchrun
};

/// Returns the rank in the environment; none if there is none, or if its variables are incomplete.
/// Throws: UsageError if a variable is not a whole number.
[[nodiscard]] std::optional<GivenRank> given_rank();

/// Removes the variables that make this process a rank, so that it and its children do not join that job. Only for a
/// process with one thread.
void forget_given_rank();

}  // namespace lockstep

#pragma GCC visibility pop
