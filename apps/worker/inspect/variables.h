// SPDX-License-Identifier: Apache-2.0
// The environment variables that a run obeys, for `lockstep inspect env`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::worker {

struct Variable {
  std::string name;
  std::optional<std::string> value = {};  ///< none: it is not set
  std::string meaning = {};               ///< empty: a library's variable, with no meaning known here
};

/// Every variable that Lockstep reads, set or not, and the set ones of the libraries below it, by name. Values of
/// tokens are hidden. Pure function of "NAME=value" entries.
[[nodiscard]] std::vector<Variable> all_variables(const std::vector<std::string>& environment);

}  // namespace lockstep::worker
