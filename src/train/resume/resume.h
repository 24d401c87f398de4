// SPDX-License-Identifier: Apache-2.0
// The start of a run, fresh or from a checkpoint. This runs on rank 0; agree_on_start() sends the result to all ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/train/trainer.h"
#include "train/plan/skipped_samples.h"

namespace lockstep::train {

/// How a batch is divided: each of `replicas` takes `batch_size` of its samples.
struct Division {
  std::int64_t replicas = 1;
  std::int64_t batch_size = 1;

  [[nodiscard]] std::int64_t samples() const { return replicas * batch_size; }
};

/// Divides the same batches into `replicas` parts. A step still has the same samples, so that steps, epochs, the
/// position in the data and the learning rate keep their meaning. Anything computed per replica, such as batch norm
/// statistics and dropout's random numbers, changes (docs/guide/resume.md).
/// Throws: UsageError naming the numbers that divide a batch evenly.
[[nodiscard]] Division divide_again(const Division& before, std::int64_t replicas);

/// Returns the message about the change: "replicas is 4 and was 1: ...".
[[nodiscard]] std::string change_text(const Division& before, const Division& now);

/// Returns the run folder that contains a checkpoint; empty if it is not in a run folder.
[[nodiscard]] std::filesystem::path run_folder_of(const std::filesystem::path& step_folder);

/// Returns true if `step_folder` is a checkpoint of the run in `run`, however the paths are written.
[[nodiscard]] bool is_of_run(const std::filesystem::path& step_folder, const std::filesystem::path& run);

/// The folder that this run writes to, and whether it may already hold a run.
struct RunPlace {
  std::filesystem::path path;
  bool resume = false;
};

/// Returns the folder of the run. Throws: UsageError for `resume: auto` without a run folder, DataError if the
/// checkpoint is missing.
[[nodiscard]] RunPlace choose_place(const TrainerOptions& options);

/// Returns the checkpoint to resume from; none for a fresh start (with `auto`, if the run folder has no checkpoint
/// yet). With `require_finite`, checkpoints in a run folder that contain non-finite values are skipped with a warning.
/// Throws: DataError if the run folder has checkpoints but none of them passes verification or is finite, or if the
///         given checkpoint is not finite; UsageError if the run folder holds a checkpoint later than the given one,
///         because one folder must not hold two continuations.
[[nodiscard]] std::optional<Checkpoint> find_start(const TrainerOptions& options, const RunPlace& place,
                                                   bool require_finite);

/// For a run killed before its first checkpoint: the values that were chosen when it started, read from the settings
/// file; 0 if unknown.
struct BegunWith {
  std::int64_t replicas = 0;
  std::int64_t threads = 0;
  std::int64_t batch_size = 0;
};
[[nodiscard]] BegunWith begun_with(const std::filesystem::path& settings_file);

/// Returns the samples that the checkpoint's run skips, from the settings of the checkpoint and of its run folder. The
/// folder's settings may name samples that are skipped only from a later step.
[[nodiscard]] SkippedSamples skipped_by(const Checkpoint& checkpoint);
/// Returns the samples that the settings of a run folder skip; none if the folder does not exist.
[[nodiscard]] SkippedSamples skipped_in(const std::filesystem::path& run_folder);

/// Returns the batch_size of the checkpoint's run; 0 if unknown.
[[nodiscard]] std::int64_t batch_size_of(const Checkpoint& checkpoint);

/// Warns if the checkpoint comes from a different libtorch or instruction set: results then differ in the last bits.
void warn_of_another_platform(const Checkpoint& checkpoint);

/// Throws: UsageError naming the settings that differ from the checkpoint's, with both values. `rows` defines which
///         settings may differ.
void require_same_settings(const Checkpoint& checkpoint, const std::string& settings, const ConfigFields& rows);

}  // namespace lockstep::train
