// SPDX-License-Identifier: Apache-2.0
// The settings of the optimizer, `optimizer.*`.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The settings of the optimizer. `auto` means the default of the chosen type. A key that the type does not have must
/// stay `auto`.
struct OptimizerConfig {
  std::string type = "adamw";  ///< adamw, adam, sgd, rmsprop, adagrad, lamb, lars, lion
  double lr = 6e-4;
  double weight_decay = 1e-4;
  std::string lr_scaling = "none";  ///< none, replicas (lr x replicas), batch (lr x total batch / 256)
  bool zero = false;                ///< each rank keeps and updates only its part of the state; the result is the same

  std::vector<std::string> betas = {};  ///< two numbers; empty: the type's default
  std::string eps = "auto";
  std::string amsgrad = "auto";
  std::string momentum = "auto";
  std::string dampening = "auto";
  std::string nesterov = "auto";
  std::string alpha = "auto";
  std::string centered = "auto";
  std::string lr_decay = "auto";
  std::string initial_accumulator_value = "auto";
  std::string trust = "auto";
  /// Parameters with their own options, as in ParameterGroup: {params: REGEX, lr, weight_decay, betas, eps, momentum}.
  std::vector<ConfigMap> groups = {};

  void describe(ConfigFields& fields);
  /// Checks the values. Throws: UsageError naming the first key whose value is invalid, or that the type does not have.
  void validate() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
