// SPDX-License-Identifier: Apache-2.0
// AdamW with its state in flat buffers and one fused pass over each parameter's memory.
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

/// The options of AdamW, with the defaults of torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;                            ///< learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay rates of the first and second moments
  double eps = 1e-8;                           ///< added to the root of the second moment
  double weight_decay = 1e-2;  ///< a step subtracts lr * weight_decay of each weight, independently of the gradient
  bool amsgrad = false;        ///< divides by the largest second moment so far
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// AdamW, with the same results as torch.optim.AdamW. State: exp_avg, exp_avg_sq; with amsgrad also max_exp_avg_sq.
///
/// Cost:   28 bytes of memory traffic for each parameter element, 36 with amsgrad.
/// Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019; Reddi et al., On the Convergence of Adam
///         and Beyond, 2018 (amsgrad).
/// Example: lockstep::AdamW optimizer{model, {.lr = 6e-4}};
class AdamW : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit AdamW(Model& model, AdamWOptions options = {}) : AdamW(named_parameters_of(model), std::move(options)) {}
  explicit AdamW(NamedTensors parameters, AdamWOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
