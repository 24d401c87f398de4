// SPDX-License-Identifier: Apache-2.0
// A program that starts its own ranks, so that it needs no launcher. Free of libtorch.
#pragma once

#include <filesystem>

#include "lockstep/launch/agent.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// SpawnOptions::processes: the visible GPUs, else the CPUs.
inline constexpr int kAuto = 0;

struct SpawnOptions {
  int processes = kAuto;               ///< ranks on this machine
  int max_restarts = 0;                ///< how often a failed group starts again
  std::filesystem::path log_dir = {};  ///< empty: a temporary folder, removed when the run succeeds
  ConsoleStyle console = ConsoleStyle::kPrefix;
};

/// True where a launcher (`lockstep run`, torchrun, a Slurm step of several tasks, MPI) has made this process a rank,
/// or half of one, which init() then refuses. Throws: UsageError where a variable of Slurm is no number.
[[nodiscard]] bool is_rank();

/// Starts this very program again as `processes` ranks, with the same arguments, under the agent of `lockstep run`;
/// waits for them and ends this process with their exit code. So it returns only in the ranks - and at once in a
/// process that is a rank already, or where one process is asked for: a world of one.
///
/// Blocks:  in the process that starts the others, until all of them ended. Call it first in main: what stands before
/// it
///          happens in that process too, and a CUDA device that it opened there stays in use.
/// Throws:  nothing: an error is printed and becomes the exit code, as with run_program.
/// Example: lockstep::spawn(argc, argv, {.processes = 2});
///          return lockstep::run_program(argc, argv, train);
void spawn(int argc, const char* const* argv, const SpawnOptions& options = {}) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
