// SPDX-License-Identifier: Apache-2.0
// Saves a run whose folder is lost in another one.
#pragma once

#include <filesystem>

#include "train/loop/ready_run.h"
#include "train/report/disk_trouble.h"

namespace lockstep::train {

/// Creates `folder` on rank 0, to know before hours of training that it is writable. An empty `folder` does nothing.
/// Collective: yes. Throws: UsageError if it lies in the run folder, IoError.
void require_rescue(const Job& job, const std::filesystem::path& folder, const std::filesystem::path& run_dir);

/// Saves the present run in `folder`/checkpoints if rank 0's disk has failed, and ends it with that error; else it does
/// nothing.
/// Collective: yes. Blocks: until the data are on the disk.
/// Throws: on every rank, IoError with the cause and, as its hint, how to resume from the rescue.
void rescue_run(const Job& job, ReadyRun& run, const DiskTrouble& trouble, const std::filesystem::path& folder);

}  // namespace lockstep::train
