// SPDX-License-Identifier: Apache-2.0
// Whether a run's steps may be recorded as a CUDA graph. A pure function.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>

#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Returns why steps may not be recorded; empty where they may. In `config` replicas are decided.
[[nodiscard]] std::string graph_obstacle(const TrainConfig& config, const c10::Device& device, int world_size);

}  // namespace lockstep::train
