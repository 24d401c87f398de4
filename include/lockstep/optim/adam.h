// SPDX-License-Identifier: Apache-2.0
// Adam, which adds weight decay to the gradient.
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

/// The options of Adam, with the defaults of torch.optim.Adam.
struct AdamOptions {
  double lr = 1e-3;                            ///< learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay rates of the first and second moments
  double eps = 1e-8;                           ///< added to the root of the second moment
  double weight_decay = 0;                     ///< multiplied by the weight and added to the gradient
  bool amsgrad = false;                        ///< divides by the largest second moment so far
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// Adam, with the same results as torch.optim.Adam. State: exp_avg, exp_avg_sq; with amsgrad also max_exp_avg_sq.
///
/// Cost:   28 bytes of memory traffic for each parameter element, 36 with amsgrad.
/// Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015; Reddi et al., On the Convergence of Adam
///         and Beyond, 2018 (amsgrad).
/// Example: lockstep::Adam optimizer{model, {.lr = 1e-3, .amsgrad = true}};
class Adam : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit Adam(Model& model, AdamOptions options = {}) : Adam(named_parameters_of(model), std::move(options)) {}
  explicit Adam(NamedTensors parameters, AdamOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
