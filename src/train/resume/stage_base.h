// SPDX-License-Identifier: Apache-2.0
// The checkpoint that a run's second stage begins with: found, verified and read by one rank, loaded by all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/comm/job.h"
#include "lockstep/optim/ema.h"
#include "train/step/step_runner.h"

namespace lockstep::train {

/// <folder>/step-00001200
[[nodiscard]] std::filesystem::path step_folder_of(const std::filesystem::path& folder, std::int64_t step);

/// Commits the checkpoint `from` once more, in `folder`, as `name`; every byte of it is verified. Fine where it is
/// there already. Throws: DataError, IoError.
void copy_checkpoint(FileSystem& files, const std::filesystem::path& from, const std::filesystem::path& folder,
                     const std::string& name);

/// Model, optimizer, average and scaler as the checkpoint `folder`/step-<step> has them, on every rank; where the run
/// stands, its data and its random numbers stay as they are. `folder`: rank 0's; it alone reads, every byte once,
/// after all of it has been verified. `ema`: null where there is none.
/// Returns: false where the checkpoint has no average for it.
///
/// Collective: yes. Blocks: until the disk has been read.
/// Throws: on every rank the same: UsageError where step is 0, as no evaluation came before; DataError naming the file
/// that is missing or torn; IoError.
[[nodiscard]] bool load_base(const Job& job, const std::filesystem::path& folder, std::int64_t step, StepRunner& steps,
                             EMA* ema);

}  // namespace lockstep::train
