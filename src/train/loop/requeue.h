// SPDX-License-Identifier: Apache-2.0
// Asks a scheduler to start the job again.
#pragma once

#include <optional>
#include <string>

#include "train/plan/stop.h"

namespace lockstep::train {

/// Returns the job that Slurm can start again; none outside of Slurm. It reads the environment.
[[nodiscard]] std::optional<std::string> slurm_job();

/// Returns true for a stop that asks for a restart: `sbatch --signal=USR1@90` sends SIGUSR1 before the time is over,
/// and --max-time is Lockstep's own limit. A SIGTERM (scancel) means that the job must end.
[[nodiscard]] bool asks_for_requeue(StopReason reason);

/// Runs `scontrol requeue JOB`.
/// Blocks: until scontrol has answered. Returns: true if Slurm accepted it; otherwise a warning says why.
[[nodiscard]] bool requeue(const std::string& job);

}  // namespace lockstep::train
