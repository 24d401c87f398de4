// SPDX-License-Identifier: Apache-2.0
// RMSprop, with or without momentum and centering.
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

/// The options of RMSprop, with the defaults of torch.optim.RMSprop.
struct RMSpropOptions {
  double lr = 1e-2;         ///< learning rate
  double alpha = 0.99;      ///< decay rate of the mean square
  double eps = 1e-8;        ///< added to the root of the mean square
  double weight_decay = 0;  ///< multiplied by the weight and added to the gradient
  double momentum = 0;      ///< fraction of the previous update that is kept; 0: no momentum
  bool centered = false;    ///< divides by the standard deviation instead of the root of the mean square
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// RMSprop, with the same results as torch.optim.RMSprop. State: square_avg; with momentum also momentum_buffer; with
/// centered also grad_avg. A variance that rounding makes negative is negated; in PyTorch the weight becomes NaN.
///
/// Cost:   20 bytes of memory traffic for each parameter element, and 8 more for each of momentum and centered.
/// Source: Tieleman and Hinton, Lecture 6.5, 2012; Graves, Generating Sequences With Recurrent Neural Networks, 2013.
/// Example: lockstep::RMSprop optimizer{model, {.lr = 1e-3, .momentum = 0.9}};
class RMSprop : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit RMSprop(Model& model, RMSpropOptions options = {})
      : RMSprop(named_parameters_of(model), std::move(options)) {}
  explicit RMSprop(NamedTensors parameters, RMSpropOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
