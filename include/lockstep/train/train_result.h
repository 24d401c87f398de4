// SPDX-License-Identifier: Apache-2.0
// The result of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/task.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The results of a run, returned by fit().
struct TrainResult {
  std::int64_t steps = 0;   ///< optimizer steps
  std::int64_t epochs = 0;  ///< epochs started
  std::optional<std::int64_t>
      skipped_steps;            ///< steps skipped because of non-finite gradients; none: the loss is not scaled
  std::int64_t replicas = 0;    ///< data-parallel width of the run
  double seconds = 0;           ///< seconds of the training steps, excluding evaluation and saving
  double images_per_s = 0;      ///< speed over all ranks
  bool reached_target = false;  ///< stop_at was met
  /// "SIGINT", "SIGTERM", "SIGUSR1" or "--max-time" if the run was asked to stop and saved; "replicas" if there are
  /// more ranks than replicas, so the launcher restarts the run on fewer ranks; empty: it is complete.
  std::string stopped_by;
  bool requeued = false;          ///< Slurm was asked to requeue the job
  std::vector<Metric> metrics;    ///< metrics of the last evaluation, measured again if the run was already complete;
                                  ///< empty without an evaluation
  std::optional<Metric> best;     ///< the main metric of the best evaluation (rank 0)
  std::int64_t best_step = 0;     ///< the step of the run's `best` checkpoint
  std::filesystem::path run_dir;  ///< the run folder
  std::filesystem::path checkpoint;  ///< the last checkpoint (rank 0)
};

}  // namespace lockstep

#pragma GCC visibility pop
