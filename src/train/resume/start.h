// SPDX-License-Identifier: Apache-2.0
// The facts that the ranks need before they read data: the run's position, width and folder.
#pragma once

#include <optional>
#include <string>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/job.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/trainer.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

struct Start {
  bool resumed = false;
  RunState run;                          ///< the position; all zero for a fresh run
  std::string settings;                  ///< all settings as YAML, with their final values
  std::optional<Checkpoint> checkpoint;  ///< the checkpoint that the run resumes from; rank 0 only
  std::string run_dir;                   ///< the run folder, on every rank
  bool saved_here = false;               ///< the checkpoint is in the run's folder
  bool in_old_folder = false;            ///< the run folder may hold more than the checkpoint; rank 0 only
  bool skips_more = false;               ///< rank 0 has a file of data.skip_samples to read
};

/// The job has more ranks than the run has replicas, and its launcher can continue with fewer nodes: the ranks exit,
/// and the launcher restarts fewer of them.
struct TooManyRanks {};

/// Opens the run folder on rank 0, finds the checkpoint and informs all ranks. Sets config.replicas, config.threads,
/// config.data.skipped_samples and job.replicas(), and replaces a config.batch_size of auto if the run has one.
///
/// Collective: yes.  Blocks: yes.
/// Throws: UsageError (a folder in use, settings that differ from the checkpoint's, fewer replicas than ranks),
///         DataError (no checkpoint passes verification), IoError; TooManyRanks, on every rank.
[[nodiscard]] Start agree_on_start(const Job& job, TrainConfig& config, TrainerOptions& options,
                                   std::optional<RunFolder>& folder);

/// Returns "1 process", "3 processes".
[[nodiscard]] std::string counted(std::int64_t count, const char* one, const char* many);

}  // namespace lockstep::train
