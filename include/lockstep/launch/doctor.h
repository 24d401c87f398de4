// SPDX-License-Identifier: Apache-2.0
// What `lockstep doctor` finds out: what lies in a run's folder and what its processes do; the state of this machine.
#pragma once

#include <string>

#include "lockstep/view/machine_check.h"
#include "lockstep/view/run_diagnosis.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Reads a run folder, or a folder of logs that `lockstep run` has named. What is torn or too large becomes a note.
/// Throws: DataError where there is no such folder, or it is none of these.
[[nodiscard]] view::RunFacts read_run(const std::string& path);

struct MachineOptions {
  bool measures_disk = true;  ///< writes 64 MB into the working directory, of which nothing is left
};

/// Gathers what the system says of this machine. It leaves out the all-reduce. Blocks: up to some five seconds, where
/// the disk is slow and the resolver does not answer.
[[nodiscard]] view::MachineFacts read_machine(const MachineOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
