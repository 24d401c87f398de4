// SPDX-License-Identifier: Apache-2.0
// Creates an optimizer by name, for settings and programs that choose the type at run time.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of any optimizer. An unset option takes the type's default.
struct OptimizerOptions {
  std::optional<double> lr = {};                         ///< learning rate
  std::optional<double> weight_decay = {};               ///< weight decay, as the type defines it
  std::optional<std::array<double, 2>> betas = {};       ///< two coefficients, as the type defines them
  std::optional<double> eps = {};                        ///< added to the denominator
  std::optional<bool> amsgrad = {};                      ///< adam, adamw
  std::optional<double> momentum = {};                   ///< sgd, rmsprop, lars
  std::optional<double> dampening = {};                  ///< sgd
  std::optional<bool> nesterov = {};                     ///< sgd
  std::optional<double> alpha = {};                      ///< rmsprop
  std::optional<bool> centered = {};                     ///< rmsprop
  std::optional<double> lr_decay = {};                   ///< adagrad
  std::optional<double> initial_accumulator_value = {};  ///< adagrad
  std::optional<double> trust = {};                      ///< lars
  /// Returns true if the parameter with this name is exempt from weight decay.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// Returns the names AdamW, Adam, SGD, RMSprop, Adagrad, LAMB, LARS and Lion.
[[nodiscard]] const std::vector<std::string>& optimizer_types();

/// Creates an optimizer of a type in optimizer_types(), whose name may be in upper or lower case.
/// Throws: UsageError for an unknown type or an option that the type lacks; anything the type's constructor throws.
/// Example: auto optimizer = lockstep::make_optimizer("sgd", lockstep::named_parameters_of(model), {.momentum = 0.9});
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const std::string& type, NamedTensors parameters,
                                                            const OptimizerOptions& options = {});

/// Creates an optimizer over the parameters of a model.
template <HasNamedParameters Model>
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const std::string& type, Model& model,
                                                            const OptimizerOptions& options = {}) {
  return make_optimizer(type, named_parameters_of(model), options);
}

}  // namespace lockstep

#pragma GCC visibility pop
