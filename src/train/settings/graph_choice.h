// SPDX-License-Identifier: Apache-2.0
// Whether a run's steps may be recorded as a CUDA graph. A pure function.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>

#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Where steps would be recorded.
struct GraphPlace {
  c10::Device device = c10::Device(c10::kCPU);
  int world_size = 1;
  bool recordable = false;  ///< Task::is_recordable()
};

/// Returns why steps are not recorded; empty where they are. In `config` replicas are decided.
[[nodiscard]] std::string graph_obstacle(const TrainConfig& config, const GraphPlace& place);

}  // namespace lockstep::train
