// SPDX-License-Identifier: Apache-2.0
// The checkpoint that a run's second stage starts from: one rank finds, verifies and reads it, and all ranks load it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/base/file_system.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/job.h"
#include "lockstep/optim/ema.h"
#include "train/step/step_runner.h"

namespace lockstep::train {

/// Returns <folder>/step-00001200.
[[nodiscard]] std::filesystem::path step_folder_of(const std::filesystem::path& folder, std::int64_t step);

/// Copies the checkpoint `from` into `folder` as `name` and verifies every byte. An existing copy is kept.
/// Throws: DataError, IoError.
void copy_checkpoint(FileSystem& files, const std::filesystem::path& from, const std::filesystem::path& folder,
                     const std::string& name);

/// Copies the best checkpoint of a run so far from the folder of `checkpoint` into `folder` as "best", because the
/// run's best evaluation stays that one until there is a better one. Does nothing if it is not there any more; warns if
/// it is damaged. Throws: IoError.
void copy_best(FileSystem& files, const Checkpoint& checkpoint, const std::filesystem::path& folder);

/// Loads model, optimizer, average and scaler from the checkpoint `folder`/step-<step>, on every rank. The run's
/// position, data and random numbers do not change. Only rank 0 reads its `folder`, after it has verified the whole
/// checkpoint. `ema` is null without an average.
/// Returns: false if the checkpoint has no average to load into `ema`.
///
/// Collective: yes. Blocks: until the disk has been read.
/// Throws: the same error on every rank: UsageError if step is 0, because there was no evaluation; DataError naming the
///         file that is missing or torn; IoError.
[[nodiscard]] bool load_base(const Job& job, const std::filesystem::path& folder, std::int64_t step, StepRunner& steps,
                             EMA* ema);

}  // namespace lockstep::train
