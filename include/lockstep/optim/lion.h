// SPDX-License-Identifier: Apache-2.0
// Lion: the sign of a momentum, with decoupled weight decay.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of Lion, with the paper's defaults.
struct LionOptions {
  double lr = 1e-4;  ///< learning rate
  /// Fractions of the old momentum in the step's direction and in the new momentum.
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;  ///< a step subtracts lr * weight_decay of each weight, independently of the gradient
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// Lion: x -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * x), m = beta2 * m + (1 - beta2) * g.
/// State: exp_avg (m).
///
/// Cost:   20 bytes of memory traffic for each parameter element.
/// Source: Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, program 1.
/// Example: lockstep::Lion optimizer{model, {.lr = 1e-4, .weight_decay = 0.1}};
class Lion : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit Lion(Model& model, LionOptions options = {}) : Lion(named_parameters_of(model), std::move(options)) {}
  explicit Lion(NamedTensors parameters, LionOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
