// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent, with or without momentum.
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

/// The options of SGD, with the defaults of torch.optim.SGD.
struct SGDOptions {
  double lr = 1e-3;       ///< learning rate
  double momentum = 0;    ///< fraction of the previous update that is kept; 0: no momentum
  double dampening = 0;   ///< fraction of the gradient that is not added to the momentum, starting with the second step
  bool nesterov = false;  ///< Nesterov momentum; requires momentum and no dampening
  double weight_decay = 0;  ///< multiplied by the weight and added to the gradient
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// SGD, with the same results as torch.optim.SGD. State: momentum_buffer, unless the momentum is zero.
///
/// Cost:   20 bytes of memory traffic for each parameter element, 12 without momentum.
/// Source: Sutskever et al., On the Importance of Initialization and Momentum in Deep Learning, 2013.
/// Example: lockstep::SGD optimizer{model, {.lr = 0.1, .momentum = 0.9, .nesterov = true}};
class SGD : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit SGD(Model& model, SGDOptions options = {}) : SGD(named_parameters_of(model), std::move(options)) {}
  explicit SGD(NamedTensors parameters, SGDOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
