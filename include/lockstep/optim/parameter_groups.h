// SPDX-License-Identifier: Apache-2.0
// Groups of parameters with their own options, chosen by regular expressions over the parameters' names.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// The parameters whose names match `pattern`, with their own options. An unset option takes the optimizer's value.
/// Setting an option that the optimizer lacks is a UsageError.
///
/// Example: lockstep::SGD optimizer{model, {.lr = 0.1, .groups = {{.pattern = R"(^fc\.)", .lr = 1.0}}}};
struct ParameterGroup {
  /// An ECMAScript regular expression. It may match anywhere in the name; ^ and $ match its ends.
  std::string pattern = {};
  std::optional<double> lr = {};                    ///< learning rate
  std::optional<double> weight_decay = {};          ///< weight decay
  std::optional<double> momentum = {};              ///< fraction of the previous update that is kept
  std::optional<std::array<double, 2>> betas = {};  ///< decay rates of the moments
  std::optional<double> eps = {};                   ///< added to the denominator
  bool may_be_empty = false;                        ///< allows a pattern that matches no name
};

/// The current values of one group of an optimizer.
struct GroupState {
  std::string pattern = {};                  ///< the group's pattern; empty: the parameters that no pattern matches
  double lr = 0;                             ///< current learning rate
  double weight_decay = 0;                   ///< weight decay
  std::vector<std::string> parameters = {};  ///< names of the group's parameters
};

}  // namespace lockstep

#pragma GCC visibility pop
