// SPDX-License-Identifier: Apache-2.0
// Adagrad: each element's learning rate falls with the sum of its squared gradients.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/optim/flat_optimizer.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of Adagrad, with the defaults of torch.optim.Adagrad.
struct AdagradOptions {
  double lr = 1e-2;                      ///< learning rate
  double lr_decay = 0;                   ///< the learning rate of step n is lr / (1 + (n - 1) * lr_decay)
  double weight_decay = 0;               ///< multiplied by the weight and added to the gradient
  double initial_accumulator_value = 0;  ///< the initial sum of squares
  double eps = 1e-10;                    ///< added to the root of the sum of squares
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// Adagrad, with the same results as torch.optim.Adagrad. State: sum.
///
/// Cost:   20 bytes of memory traffic for each parameter element.
/// Source: Duchi et al., Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, 2011.
/// Example: lockstep::Adagrad optimizer{model, {.lr = 0.01}};
class Adagrad : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit Adagrad(Model& model, AdagradOptions options = {})
      : Adagrad(named_parameters_of(model), std::move(options)) {}
  explicit Adagrad(NamedTensors parameters, AdagradOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
