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
  std::string settings;                  ///< settings as YAML, with the decided ones
  std::optional<Checkpoint> checkpoint;  ///< on rank 0: the checkpoint that it resumes from
  std::string run_dir;                   ///< the run folder, on every rank
  bool saved_here = false;               ///< the checkpoint lies in the run's folder
  bool in_old_folder = false;            ///< on rank 0: the run folder may hold more than the checkpoint
  bool skips_more = false;               ///< rank 0 has a file of data.skip_samples to read
};

/// The job has more ranks than the run has replicas, and its launcher can go on with fewer nodes: the ranks leave, and
/// it starts them again with fewer.
struct TooManyRanks {};

/// Opens the run folder on rank 0, finds the checkpoint and informs all ranks; sets config.replicas, config.threads,
/// config.data.skipped_samples, a config.batch_size that is auto if the run has one, and job.replicas().
///
/// Collective: yes.  Blocks: yes.
/// Throws: UsageError (a folder in use, other settings than the checkpoint's, fewer replicas than ranks), DataError (no
/// checkpoint verifies), IoError; TooManyRanks, on every rank.
[[nodiscard]] Start agree_on_start(const Job& job, TrainConfig& config, TrainerOptions& options,
                                   std::optional<RunFolder>& folder);

/// Returns "1 process", "3 processes".
[[nodiscard]] std::string counted(std::int64_t count, const char* one, const char* many);

}  // namespace lockstep::train
