// SPDX-License-Identifier: Apache-2.0
#include "train/settings/graph_choice.h"

#include <fmt/format.h>

namespace lockstep::train {

GraphPlace graph_place(const Job& job, const Task& task) {
  return {.device = job.device(),
          .world_size = job.world_size(),
          .recordable = task.is_recordable(),
          .by_nccl = job.backend() == "nccl"};
}

std::string graph_obstacle(const TrainConfig& config, const GraphPlace& place) {
  if (config.cuda_graph == "false") return "cuda_graph is false";
  if (config.cuda_graph == "auto" && !place.recordable) return "the task does not say that its steps are recordable";
  if (!place.device.is_cuda()) return "the device is the CPU";
  if (place.world_size > 1 && !place.by_nccl) {
    return fmt::format("{} processes reduce their gradients through the hosts' memory", place.world_size);
  }
  // Recording with NCCL has only been tested with a single rank.
  if (config.cuda_graph == "auto" && place.world_size > 1) {
    return fmt::format("cuda_graph is auto, and the steps of {} processes are recorded only with cuda_graph=true",
                       place.world_size);
  }
  if (config.guard > 0) return "the guard reads the gradients of single replicas";
  if (config.replicas > place.world_size) {
    return fmt::format("{} replicas take turns within the step", config.replicas);
  }
  return "";
}

}  // namespace lockstep::train
