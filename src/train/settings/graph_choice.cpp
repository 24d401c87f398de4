// SPDX-License-Identifier: Apache-2.0
#include "train/settings/graph_choice.h"

#include <fmt/format.h>

namespace lockstep::train {

std::string graph_obstacle(const TrainConfig& config, const GraphPlace& place) {
  if (config.cuda_graph == "false") return "cuda_graph is false";
  if (config.cuda_graph == "auto" && !place.recordable) return "the task does not say that its steps are recordable";
  if (!place.device.is_cuda()) return "the device is the CPU";
  // A recorded reduction could neither be watched nor aborted, so a dead peer would cause a hang.
  if (place.world_size > 1) return fmt::format("{} processes reduce their gradients within the step", place.world_size);
  if (config.replicas > 1) return fmt::format("{} replicas take turns within the step", config.replicas);
  return "";
}

}  // namespace lockstep::train
