// SPDX-License-Identifier: Apache-2.0
// The optimizer that the settings describe.
#pragma once

#include <memory>

#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/optimizer_config.h"

namespace lockstep::train {

/// Throws: UsageError naming a key that is no number or flag, and a key of a group that is none.
[[nodiscard]] OptimizerOptions optimizer_options(const OptimizerConfig& config);

/// Throws: UsageError where `group` sets what an optimizer of `type` does not have or not within its bounds, or its
/// pattern is no regular expression.
void require_group(const std::string& type, const OptimizerOptions& options, const ParameterGroup& group);

/// Throws: as make_optimizer(), and optimizer_options().
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& config, NamedTensors parameters);

}  // namespace lockstep::train
