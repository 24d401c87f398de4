// SPDX-License-Identifier: Apache-2.0
// Where a run starts from: nothing, or a checkpoint. Rank 0's part; trainer.cpp shares what it finds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// The run folder that a checkpoint lies in; empty where it lies in none.
[[nodiscard]] std::filesystem::path run_folder_of(const std::filesystem::path& step_folder);

/// Where this run writes, and whether it may find a run there.
struct RunPlace {
  std::filesystem::path path;
  bool resume = false;
};

/// Throws: UsageError for `resume: auto` without a run folder, DataError where the checkpoint is not there.
[[nodiscard]] RunPlace choose_place(const TrainerOptions& options);

/// The checkpoint to go on from; none: start afresh (with `auto`, where the run folder has none yet).
/// Throws: DataError where there are checkpoints and none verifies; UsageError where the run folder holds a later one
/// than the path that was given: two futures in one folder.
[[nodiscard]] std::optional<Checkpoint> find_start(const TrainerOptions& options, const RunPlace& place);

/// Settings that a run was begun with and that its folder's file of settings tells, for a run that had not come to a
/// checkpoint: as they had been decided. 0: not known.
struct BegunWith {
  std::int64_t replicas = 0;
  std::int64_t threads = 0;
  std::int64_t batch_size = 0;
};
[[nodiscard]] BegunWith begun_with(const std::filesystem::path& settings_file);

/// The batch_size that the checkpoint's run has; 0: not known.
[[nodiscard]] std::int64_t batch_size_of(const Checkpoint& checkpoint);

/// Warns where the checkpoint is of another libtorch or instruction set: the bits are then others.
void warn_of_another_platform(const Checkpoint& checkpoint);

/// Throws: UsageError naming the settings that differ from those of the checkpoint, with both values. `rows` say which
/// may differ.
void require_same_settings(const Checkpoint& checkpoint, const std::string& settings, const ConfigFields& rows);

}  // namespace lockstep::train
