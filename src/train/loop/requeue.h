// SPDX-License-Identifier: Apache-2.0
// Asking a scheduler to start the job again.
#pragma once

#include <optional>
#include <string>

#include "train/plan/stop.h"

namespace lockstep::train {

/// The job that Slurm would have to start again; none: not under Slurm. Reads the environment.
[[nodiscard]] std::optional<std::string> slurm_job();

/// SIGUSR1 is what `sbatch --signal=USR1@90` sends before the time is over; --max-time is a limit of ours. Who sends
/// SIGTERM (scancel) wants the job to end.
[[nodiscard]] bool asks_for_requeue(StopReason reason);

/// Runs `scontrol requeue JOB`.
/// Blocks: until scontrol has answered. Returns: whether Slurm took it; if not, a warning says why.
[[nodiscard]] bool requeue(const std::string& job);

}  // namespace lockstep::train
