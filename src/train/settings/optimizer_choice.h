// SPDX-License-Identifier: Apache-2.0
// Creates the optimizer described by the settings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/optimizer_config.h"

namespace lockstep::train {

/// Returns the options. Throws: UsageError naming a key whose value is not a number or flag, or a group's unknown key.
[[nodiscard]] OptimizerOptions optimizer_options(const OptimizerConfig& config);

/// Throws: UsageError if `group` sets an option that `type` does not have or that is out of range, or if its pattern is
///         not a valid regular expression.
void require_group(const std::string& type, const OptimizerOptions& options, const ParameterGroup& group);

/// Returns the patterns of groups that match no parameter.
[[nodiscard]] std::vector<std::string> empty_groups(const OptimizerConfig& config, const NamedTensors& parameters);

/// Throws: anything thrown by optimizer_options(), or by make_optimizer() in lockstep/optim/make_optimizer.h.
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& config, NamedTensors parameters);

}  // namespace lockstep::train
