// SPDX-License-Identifier: Apache-2.0
// The optimizer that the settings describe.
#pragma once

#include <memory>

#include "lockstep/optim/make_optimizer.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/optimizer_config.h"

namespace lockstep::train {

/// Throws: UsageError naming a key that is no number or flag.
[[nodiscard]] OptimizerOptions optimizer_options(const OptimizerConfig& config);

/// Throws: as make_optimizer(), and optimizer_options().
[[nodiscard]] std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& config, NamedTensors parameters);

}  // namespace lockstep::train
