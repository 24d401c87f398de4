// SPDX-License-Identifier: Apache-2.0
// LARS, for large batches: momentum with a learning rate for each parameter that depends on its norm.
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

/// The options of LARS. The defaults of momentum, trust and weight decay are from the paper's experiments.
struct LARSOptions {
  double lr = 1e-1;            ///< learning rate
  double momentum = 0.9;       ///< fraction of the previous update that is kept
  double trust = 1e-3;         ///< the paper's eta: length of an update at lr 1, as a fraction of the parameter's norm
  double weight_decay = 5e-4;  ///< multiplied by the weight and added to the gradient
  /// Returns true if the parameter with this name is exempt from weight decay; by default, none is.
  std::function<bool(const std::string& name)> no_decay = {};
  std::vector<ParameterGroup> groups = {};  ///< parameters with their own options
};

/// LARS: v = momentum * v + lr * rate * (g + weight_decay * x), x -= v, with rate = trust * |x| / (|g| + weight_decay *
/// |x|). If |x| or |g| is zero, the rate is 1. State: momentum_buffer (v).
///
/// The norms cover whole parameters and are summed in double over fixed blocks of memory, so bits do not depend on
/// threads or instruction sets. LARS cannot update only part of a parameter (ZeroRedundancyOptimizer rejects it).
///
/// Cost:   two passes, 28 bytes of memory traffic for each parameter element.
/// Source: You et al., Large Batch Training of Convolutional Networks, 2017, algorithm 1.
/// Example: lockstep::LARS optimizer{model, {.lr = 2.0, .weight_decay = 1e-4}};
class LARS : public FlatOptimizer {
 public:
  template <HasNamedParameters Model>
  explicit LARS(Model& model, LARSOptions options = {}) : LARS(named_parameters_of(model), std::move(options)) {}
  explicit LARS(NamedTensors parameters, LARSOptions options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
