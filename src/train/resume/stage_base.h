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

/// Returns <folder>/step-00001200.
[[nodiscard]] std::filesystem::path step_folder_of(const std::filesystem::path& folder, std::int64_t step);

/// Commits the checkpoint `from` again, in `folder`, as `name`; every byte is verified. An existing one is kept.
/// Throws: DataError, IoError.
void copy_checkpoint(FileSystem& files, const std::filesystem::path& from, const std::filesystem::path& folder,
                     const std::string& name);

/// Loads model, optimizer, average and scaler from the checkpoint `folder`/step-<step>, on every rank. The run's
/// position, data and random numbers do not change. `folder` is rank 0's; only rank 0 reads it, every byte once, after
/// all of it has been verified. `ema` is null if there is none.
/// Returns: false if the checkpoint has no average for it.
///
/// Collective: yes. Blocks: until the disk has been read.
/// Throws: the same error on every rank: UsageError if step is 0, as there was no evaluation before; DataError
///         naming the file that is missing or torn; IoError.
[[nodiscard]] bool load_base(const Job& job, const std::filesystem::path& folder, std::int64_t step, StepRunner& steps,
                             EMA* ema);

}  // namespace lockstep::train
