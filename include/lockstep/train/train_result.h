// SPDX-License-Identifier: Apache-2.0
// What a run has come to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct TrainResult {
  std::int64_t steps = 0;   ///< optimizer steps
  std::int64_t epochs = 0;  ///< begun
  std::optional<std::int64_t>
      skipped_steps;  ///< of them, left out for gradients that are not finite; none: the loss is not scaled
  std::int64_t replicas = 0;
  double seconds = 0;           ///< of the training steps, without evaluation and saving
  double images_per_s = 0;      ///< over all ranks
  bool reached_target = false;  ///< stop_at was met
  std::string stopped_by;       ///< "SIGINT", "SIGTERM", "SIGUSR1" or "--max-time": it saved and left; empty: complete
  bool requeued = false;        ///< Slurm was asked to start the job again
  std::vector<Metric> metrics;  ///< of the last evaluation; empty where there was none
  std::optional<Metric> best;   ///< of all evaluations (rank 0)
  std::int64_t best_step = 0;   ///< whose checkpoint is the run's `best`
  std::filesystem::path run_dir;
  std::filesystem::path checkpoint;  ///< the last one (rank 0)
};

}  // namespace lockstep

#pragma GCC visibility pop
