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
  std::string type = "adamw";       ///< adamw, adam, sgd, rmsprop, adagrad, lamb, lars, lion
  double lr = 6e-4;                 ///< learning rate, before lr_scaling
  double weight_decay = 1e-4;       ///< weight decay, coupled or decoupled depending on the type
  std::string lr_scaling = "none";  ///< none, replicas (lr x replicas), batch (lr x total batch / 256)
  bool zero = false;                ///< each rank keeps and updates only its part of the state; the result is the same

  std::vector<std::string> betas = {};             ///< two numbers; empty: the type's default
  std::string eps = "auto";                        ///< a number
  std::string amsgrad = "auto";                    ///< adam, adamw: true, false
  std::string momentum = "auto";                   ///< sgd, rmsprop, lars: a number
  std::string dampening = "auto";                  ///< sgd: a number
  std::string nesterov = "auto";                   ///< sgd: true, false
  std::string alpha = "auto";                      ///< rmsprop: a number
  std::string centered = "auto";                   ///< rmsprop: true, false
  std::string lr_decay = "auto";                   ///< adagrad: a number
  std::string initial_accumulator_value = "auto";  ///< adagrad: a number
  std::string trust = "auto";                      ///< lars: a number
  /// Parameters with their own options, as in ParameterGroup: {params: REGEX, lr, weight_decay, betas, eps, momentum}.
  std::vector<ConfigMap> groups = {};

  /// Adds every key to `fields`, with its description.
  void describe(ConfigFields& fields);
  /// Checks the values. Throws: UsageError naming the first key that has an invalid value or that the type lacks.
  void validate() const;
};

}  // namespace lockstep

#pragma GCC visibility pop
