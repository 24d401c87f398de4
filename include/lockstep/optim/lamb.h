// SPDX-License-Identifier: Apache-2.0
// LAMB, for large batches: a step in AdamW's direction whose length is proportional to the parameter's norm.
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

/// The options of LAMB, with defaults from the paper's experiments.
struct LAMBOptions {
  double lr = 1e-3;                            ///< learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay rates of the first and second moments
  double eps = 1e-6;                           ///< added to the root of the second moment
  double weight_decay = 1e-2;  ///< multiplied by the weight and added to the step before the step is scaled
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// LAMB: x -= lr * |x| / |r + weight_decay * x| * (r + weight_decay * x), with Adam's direction r, bias-corrected. If
/// either norm is zero, the ratio is 1. State: exp_avg, exp_avg_sq.
///
/// The norms cover whole parameters and are summed in double over fixed blocks of memory, so bits do not depend on
/// threads or instruction sets. LAMB cannot update only part of a parameter (ZeroRedundancyOptimizer rejects it).
///
/// Cost:   two passes, 40 bytes of memory traffic for each parameter element.
/// Source: You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, 2019, algorithm 2.
/// Example: lockstep::LAMB optimizer{model, {.lr = 4e-3}};
class LAMB : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit LAMB(Model& model, LAMBOptions options = {}) : LAMB(named_parameters_of(model), std::move(options)) {}
  explicit LAMB(NamedTensors parameters, LAMBOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
