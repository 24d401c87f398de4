// SPDX-License-Identifier: Apache-2.0
// Builds the groups and rules of an optimizer from its options. A group has the optimizer's options, except for options
// that it sets itself.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "optim/rule.h"

namespace lockstep {
struct AdamWOptions;
struct AdamOptions;
struct SGDOptions;
struct RMSpropOptions;
struct AdagradOptions;
struct LAMBOptions;
struct LARSOptions;
struct LionOptions;
}  // namespace lockstep

namespace lockstep::optim {

/// Throws: UsageError, always: group `pattern` sets an option that the optimizer lacks.
[[noreturn]] void throw_no_option(const char* optimizer, const std::string& pattern, const char* option);

/// Throws: UsageError if a group's state differs from the default group's, or if a group has a learning rate while
///         the optimizer's learning rate is 0.
void check_groups(const Setup& setup);

template <class Options>
[[nodiscard]] Options with_group(Options options, const ParameterGroup& group, const char* optimizer) {
  options.lr = group.lr.value_or(options.lr);
  options.weight_decay = group.weight_decay.value_or(options.weight_decay);
  if constexpr (requires { options.momentum; }) {
    options.momentum = group.momentum.value_or(options.momentum);
  } else if (group.momentum) {
    throw_no_option(optimizer, group.pattern, "momentum");
  }
  if constexpr (requires { options.betas; }) {
    options.betas = group.betas.value_or(options.betas);
  } else if (group.betas) {
    throw_no_option(optimizer, group.pattern, "betas");
  }
  if constexpr (requires { options.eps; }) {
    options.eps = group.eps.value_or(options.eps);
  } else if (group.eps) {
    throw_no_option(optimizer, group.pattern, "eps");
  }
  return options;
}

/// Builds a setup with rules of type `OneRule`, whose constructor checks options; kName names the optimizer.
template <class OneRule, class Options>
[[nodiscard]] Setup make_setup(Options options) {
  const char* name = OneRule::kName;
  Setup setup{.optimizer = name};
  const auto add = [&](const std::string& pattern, const Options& own, bool has_own_lr) {
    require_not_negative({name, "lr", own.lr});
    require_not_negative({name, "weight_decay", own.weight_decay});
    setup.groups.push_back({.pattern = pattern,
                            .own_lr = own.lr,
                            .has_own_lr = has_own_lr,
                            .weight_decay = own.weight_decay,
                            .rule = std::make_shared<OneRule>(own)});
  };
  add("", options, false);
  for (const ParameterGroup& group : options.groups) {
    add(group.pattern, with_group(options, group, name), group.lr.has_value());
    setup.groups.back().may_be_empty = group.may_be_empty;
  }
  setup.no_decay = std::move(options.no_decay);
  check_groups(setup);
  return setup;
}

/// Returns for each of `names` the index of its group. Throws: the UsageErrors of FlatOptimizer.
[[nodiscard]] std::vector<std::size_t> assign_groups(const std::vector<std::string>& names, const Setup& setup);

/// Returns the groups and rules of an optimizer. Throws: UsageError for an option out of range.
[[nodiscard]] Setup setup_of(AdamWOptions options);
[[nodiscard]] Setup setup_of(AdamOptions options);
[[nodiscard]] Setup setup_of(SGDOptions options);
[[nodiscard]] Setup setup_of(RMSpropOptions options);
[[nodiscard]] Setup setup_of(AdagradOptions options);
[[nodiscard]] Setup setup_of(LAMBOptions options);
[[nodiscard]] Setup setup_of(LARSOptions options);
[[nodiscard]] Setup setup_of(LionOptions options);

}  // namespace lockstep::optim
