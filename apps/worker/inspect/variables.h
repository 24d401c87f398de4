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
  std::string meaning = {};               ///< empty: it is one of a library's, of which nothing is known here
};

/// Every variable that Lockstep reads, set or not, and those that are set of the libraries below it, by name. Tokens
/// keep their value to themselves. Pure function of "NAME=value" entries.
[[nodiscard]] std::vector<Variable> all_variables(const std::vector<std::string>& environment);

}  // namespace lockstep::worker
