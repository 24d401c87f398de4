// SPDX-License-Identifier: Apache-2.0
// Decides whether a run's steps may be recorded as CUDA graphs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>

#include "lockstep/comm/job.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// The facts about the ranks and the task that determine whether steps can be recorded.
struct GraphPlace {
  c10::Device device = c10::Device(c10::kCPU);
  int world_size = 1;
  bool recordable = false;  ///< Task::is_recordable()
  bool by_nccl = false;     ///< the backend is NCCL
};

/// Returns the facts about the ranks of `job` for recording `task`'s steps.
[[nodiscard]] GraphPlace graph_place(const Job& job, const Task& task);

/// Returns why steps are not recorded; empty if they are. `config` has the final number of replicas.
[[nodiscard]] std::string graph_obstacle(const TrainConfig& config, const GraphPlace& place);

}  // namespace lockstep::train
