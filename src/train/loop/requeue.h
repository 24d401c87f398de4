// SPDX-License-Identifier: Apache-2.0
// Asks a scheduler to restart the job.
#pragma once

#include <optional>
#include <string>

#include "train/plan/stop.h"

namespace lockstep::train {

/// Returns the Slurm job ID from the environment; none outside Slurm.
[[nodiscard]] std::optional<std::string> slurm_job();

/// Returns true for a reason that asks for a restart: `sbatch --signal=USR1@90` sends SIGUSR1 before the time limit,
/// and --max-time is Lockstep's own limit. A SIGTERM (scancel) means that the job must end.
[[nodiscard]] bool asks_for_requeue(StopReason reason);

/// Runs `scontrol requeue JOB`.
/// Blocks: until scontrol has ended. Returns: true if Slurm accepted it; otherwise a warning gives the reason.
[[nodiscard]] bool requeue(const std::string& job);

}  // namespace lockstep::train
