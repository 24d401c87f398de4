// SPDX-License-Identifier: Apache-2.0
// Assigns the parameters to the groups.
#include "optim/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

std::regex expression_of(const Setup& setup, const std::string& pattern) {
  if (pattern.empty()) {
    throw UsageError(fmt::format("a parameter group of {} has no pattern", setup.optimizer),
                     "set ParameterGroup::pattern; parameters that match no pattern use the optimizer's own options");
  }
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw UsageError(
        fmt::format("{}'s group '{}' is not a regular expression: {}", setup.optimizer, pattern, error.what()),
        "ECMAScript syntax applies; write a dot in a name as \\.");
  }
}

}  // namespace

void throw_no_option(const char* optimizer, const std::string& pattern, const char* option) {
  throw UsageError(fmt::format("group '{}' sets {}, which {} does not have", pattern, option, optimizer));
}

void check_groups(const Setup& setup) {
  const auto kinds = [](const Group& group) {
    std::vector<std::string> names;
    for (const StateKind& kind : group.rule->state()) names.push_back(kind.name);
    return names;
  };
  const Group& base = setup.groups.front();
  for (const Group& group : setup.groups) {
    if (group.has_own_lr && base.own_lr == 0 && group.own_lr != 0) {
      throw UsageError(fmt::format("group '{}' has the learning rate {}, but {} itself has 0", group.pattern,
                                   group.own_lr, setup.optimizer),
                       "schedules keep the ratio of the two: set the optimizer's rate above 0");
    }
    if (kinds(group) != kinds(base)) {
      throw UsageError(
          fmt::format("group '{}' of {} needs a different state than the other groups", group.pattern, setup.optimizer),
          "the momentum is 0 in one group but not in another: use a very small one instead of 0");
    }
  }
}

std::vector<std::size_t> assign_groups(const std::vector<std::string>& names, const Setup& setup) {
  std::vector<std::size_t> group_of(names.size(), 0);
  for (std::size_t g = 1; g < setup.groups.size(); ++g) {
    const std::string& pattern = setup.groups[g].pattern;
    const std::regex expression = expression_of(setup, pattern);
    bool found = setup.groups[g].may_be_empty;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!std::regex_search(names[i], expression)) continue;
      found = true;
      if (group_of[i] != 0) {
        throw UsageError(fmt::format("parameter '{}' is matched by two groups of {}: '{}' and '{}'", names[i],
                                     setup.optimizer, setup.groups[group_of[i]].pattern, pattern),
                         "make the patterns mutually exclusive");
      }
      group_of[i] = g;
    }
    if (!found) {
      throw UsageError(
          fmt::format("{}'s group '{}' matches none of {} parameters", setup.optimizer, pattern, names.size()),
          names.empty() ? "the optimizer has no parameters" : fmt::format("one of the names is '{}'", names.front()));
    }
  }
  return group_of;
}

}  // namespace lockstep::optim
