// SPDX-License-Identifier: Apache-2.0
// Lets a program start its own ranks, so that it needs no launcher. Does not use libtorch.
#pragma once

#include <filesystem>

#include "lockstep/launch/agent.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The value of SpawnOptions::processes that means one rank per visible GPU, or one per CPU if ranks cannot use a GPU.
inline constexpr int kAuto = 0;

/// The options of spawn().
struct SpawnOptions {
  int processes = kAuto;                         ///< ranks on this machine
  int max_restarts = 0;                          ///< how many times a failed group is restarted
  std::filesystem::path log_dir = {};            ///< log folder; empty: a temporary folder, removed on success
  ConsoleStyle console = ConsoleStyle::kPrefix;  ///< how the ranks' output is shown
};

/// Returns true if a launcher (`lockstep run`, torchrun, a Slurm step of several tasks, MPI) has set at least some of a
/// rank's variables. If others are missing, init() throws. Throws: UsageError if Slurm's number of tasks is not a
/// number.
[[nodiscard]] bool is_rank();

/// Starts this program again as `processes` ranks, with the same arguments, under the agent of `lockstep run`, waits
/// for them and ends this process with their exit code. It therefore returns only in the ranks. It returns at once in a
/// process that is already a rank, and if `processes` is 1, which is a world of one.
///
/// Blocks: in the process that starts the ranks, until all of them have ended. Call it first in main: code before it
///          runs in that process too, and a CUDA device opened there stays in use.
/// Throws: nothing. An error is printed and determines the exit code, as in run_program().
/// Example: lockstep::spawn(argc, argv, {.processes = 2});
///          return lockstep::run_program(argc, argv, train);
void spawn(int argc, const char* const* argv, const SpawnOptions& options = {}) noexcept;

}  // namespace lockstep

#pragma GCC visibility pop
