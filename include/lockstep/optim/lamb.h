// SPDX-License-Identifier: Apache-2.0
// LAMB: AdamW's direction, with a length in proportion to the parameter's norm, for large batches.
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

/// The options of LAMB. Defaults are those of the paper's runs.
struct LAMBOptions {
  double lr = 1e-3;                            ///< learning rate
  std::array<double, 2> betas = {0.9, 0.999};  ///< shares of the old first and second moment that are kept
  double eps = 1e-6;                           ///< added to the root of the second moment
  double weight_decay = 1e-2;                  ///< multiplied by the weight and added to the step before it is scaled
  /// Returns true for the names of parameters without weight decay; by default all are decayed.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// LAMB: x -= lr * |x| / |r + weight_decay * x| * (r + weight_decay * x), with Adam's direction r, bias-corrected. If
///       one of the norms is zero, their quotient counts as 1. State: exp_avg, exp_avg_sq.
///
/// The norms are those of whole parameters, summed in double in fixed blocks of their memory: threads and instruction
/// sets change no bits. It cannot update a part of a parameter (ZeroRedundancyOptimizer refuses it).
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
