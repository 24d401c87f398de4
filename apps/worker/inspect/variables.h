// SPDX-License-Identifier: Apache-2.0
// The environment variables that a run reads, for `lockstep inspect env`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::worker {

struct Variable {
  std::string name;
  std::optional<std::string> value = {};  ///< value; none: the variable is not set
  std::string meaning = {};               ///< meaning; empty: a library's variable that Lockstep cannot explain
};

/// Returns every variable that Lockstep reads, set or not, and the variables of its libraries that are set, ordered by
/// name. Values of tokens are hidden. Pure function of "NAME=value" entries.
[[nodiscard]] std::vector<Variable> all_variables(const std::vector<std::string>& environment);

}  // namespace lockstep::worker
