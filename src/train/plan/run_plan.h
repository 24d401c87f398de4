// SPDX-License-Identifier: Apache-2.0
// RunPlan: the plan of a run, fixed before the first step.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/train/train_config.h"
#include "train/plan/plan.h"

namespace lockstep::train {

/// The decisions made about a run. Fields are the same on every rank unless their comments say otherwise.
struct RunPlan {
  const TrainConfig& config;  ///< settings with the final values of replicas, threads and batch_size
  std::string recipe;
  std::string settings;  ///< config and recipe as YAML, for the config.yml of the run folder and of each checkpoint
  std::filesystem::path run_dir;
  std::shared_ptr<Dataset> train_set;
  std::shared_ptr<Dataset> test_set;  ///< null if there are no evaluations
  Plan sums;                          ///< steps, learning rate, schedule
  bool folder_has_run = false;        ///< the run folder may hold more than the checkpoint to resume from; rank 0 only
  int world_size = 1;

  [[nodiscard]] std::filesystem::path checkpoints() const { return run_dir / "checkpoints"; }
};

}  // namespace lockstep::train
