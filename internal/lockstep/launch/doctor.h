// SPDX-License-Identifier: Apache-2.0
// The findings of `lockstep doctor`: the files of a run's folder, the state of its processes or of any process, and the
// state of this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/nccl_library.h"
#include "lockstep/view/link_report.h"
#include "lockstep/view/machine_check.h"
#include "lockstep/view/run_diagnosis.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Reads a run folder, or a log folder named by `lockstep run`. A torn or oversized file becomes a note.
/// Throws: DataError if the folder does not exist or is neither of these.
[[nodiscard]] view::RunFacts read_run(const std::string& path);

/// Returns the folder that holds the attempts of the run in `run`: its folder "logs", itself, or the folder of the
/// `lockstep run` that started its program; empty if there is none.
[[nodiscard]] std::filesystem::path logs_of_run(const std::filesystem::path& run);

/// The state of a process, read from outside.
struct ProcessReport {
  int pid = 0;                           ///< process id
  std::string program = {};              ///< file name of its program; empty: not readable
  std::string text = {};                 ///< "process 4711 (python3.11) sleeps in futex_wait_queue, 1.2 GB of memory"
  std::vector<std::string> stacks = {};  ///< its stacks, line by line
};

/// Reads the state of a process and of its child processes, at most eight. Blocks: for at most 1.5 s for each process.
/// Throws: DataError if there is no such process.
[[nodiscard]] std::vector<ProcessReport> read_processes(int pid);

/// The settings of read_machine().
struct MachineOptions {
  bool measures_disk = true;  ///< measures the disk by writing 64 MB to a temporary file in the working directory
  nccl::Search nccl = {};     ///< the folders in which ranks look for NCCL
};

/// Collects the facts about this machine, without the all-reduce measurement. Blocks: up to about five seconds, if the
/// disk is slow and the resolver does not answer.
[[nodiscard]] view::MachineFacts read_machine(const MachineOptions& options);

/// Measures round trips and bandwidth between all hosts of a job over the ranks' own wire, encrypted and plain, on the
/// interfaces that its ranks use.
/// Collective: every rank of a job under `lockstep run`. Returns the measurements on rank 0; none on other ranks.
/// Cost: one and a half seconds for each host.
/// Throws: UsageError if no Lockstep launcher serves a store; the store's PeerError and TimeoutError; IoError.
[[nodiscard]] std::optional<view::LinkFacts> measure_links();

}  // namespace lockstep

#pragma GCC visibility pop
