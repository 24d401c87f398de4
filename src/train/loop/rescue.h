// SPDX-License-Identifier: Apache-2.0
// Saves a run in another folder if its own folder is lost.
#pragma once

#include <filesystem>

#include "train/loop/ready_run.h"
#include "train/report/disk_trouble.h"

namespace lockstep::train {

/// Creates `folder` on rank 0, to check before training that it is writable. Does nothing if `folder` is empty.
/// Collective: yes. Throws: UsageError if it is inside the run folder; IoError.
void require_rescue(const Job& job, const std::filesystem::path& folder, const std::filesystem::path& run_dir);

/// If rank 0's disk has failed, saves the run in `folder`/checkpoints and throws that error; otherwise it does nothing.
/// Collective: yes. Blocks: until the data is on disk.
/// Throws: on every rank, IoError with the cause and, as its hint, how to resume from the rescue.
void rescue_run(const Job& job, ReadyRun& run, const DiskTrouble& trouble, const std::filesystem::path& folder);

}  // namespace lockstep::train
