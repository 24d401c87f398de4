// SPDX-License-Identifier: Apache-2.0
// A run whose folder is lost is saved in another one.
#pragma once

#include <filesystem>

#include "train/loop/ready_run.h"
#include "train/report/disk_trouble.h"

namespace lockstep::train {

/// Makes `folder` on rank 0, so that it is known to be writable before hours are spent. Empty: nothing happens.
/// Collective: yes. Throws: UsageError where it lies in the run folder, IoError.
void require_rescue(const Job& job, const std::filesystem::path& folder, const std::filesystem::path& run_dir);

/// Saves the run as it stands in `folder`/checkpoints where rank 0's disk was in trouble, and ends it with that error;
/// nothing where it was not.
/// Collective: yes. Blocks: until the disk has it.
/// Throws: on every rank, IoError with what happened, and as its hint how to resume from the rescue.
void rescue_run(const Job& job, ReadyRun& run, const DiskTrouble& trouble, const std::filesystem::path& folder);

}  // namespace lockstep::train
