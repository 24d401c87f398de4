// SPDX-License-Identifier: Apache-2.0
// RunPlan: the plan of a run, decided before the first step. Nothing in it changes afterwards.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "lockstep/data/dataset.h"
#include "lockstep/train/train_config.h"
#include "train/plan/plan.h"

namespace lockstep::train {

/// The decisions about a run. Fields are the same on every rank unless they say otherwise.
struct RunPlan {
  const TrainConfig& config;  ///< replicas, threads and batch_size are decided numbers
  std::string recipe;
  std::string settings;  ///< config and recipe as YAML: config.yml of the run folder and of each checkpoint
  std::filesystem::path run_dir;
  std::shared_ptr<Dataset> train_set;
  std::shared_ptr<Dataset> test_set;  ///< null: nothing is evaluated
  Plan sums;                          ///< steps, learning rate, schedule
  bool folder_has_run =
      false;  ///< on rank 0: the run folder may hold more than the checkpoint that the run resumes from
  int world_size = 1;

  [[nodiscard]] std::filesystem::path checkpoints() const { return run_dir / "checkpoints"; }
};

}  // namespace lockstep::train
