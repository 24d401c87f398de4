// SPDX-License-Identifier: Apache-2.0
// Replays a step of an earlier run in this single process, from the nearest checkpoint before the step, in a folder
// that is removed afterwards. The run's own folder is unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/view/digest_chain.h"
#include "worker/explain/step_recorder.h"

namespace lockstep::worker {

struct ReplayRequest {
  std::string run;                ///< run folder
  std::int64_t step = 0;          ///< number of the step to record
  std::vector<std::string> sets;  ///< settings to change for the replay, of the form a.b=c
  std::string device;             ///< value of --device; empty: the default on this machine
  bool operators = false;         ///< RecorderOptions::operators
  bool single_losses = false;     ///< RecorderOptions::single_losses
  bool may_be_long = false;       ///< true: replays even if it takes more than kLongReplay
};

/// The results of a replay.
struct Replay {
  StepRecord record;
  std::vector<LayerNorms> norms;        ///< norms of the replayed steps; the recorded step is the last
  std::vector<at::Tensor> pictures;     ///< StepRecorder::pictures()
  std::vector<std::string> loss_names;  ///< names of the loss's parts, if it has several
  std::string checkpoint;  ///< checkpoint from which the replay resumed; empty: it started at the first step
  std::string failure;     ///< error that ended the step; empty: none
};

inline constexpr double kLongReplay = 120;  ///< seconds

/// Returns the run's settings file. Throws: DataError if the folder does not hold a run.
[[nodiscard]] std::filesystem::path settings_of_run(const std::filesystem::path& run);

/// Returns true if the digests of the replayed step equal those in the run's chain.
[[nodiscard]] bool has_digest(const StepRecord& record, const view::DigestRecord& own);

/// Replays the run up to the step. Blocks: for the training time of the replayed steps.
/// Throws: DataError if the folder does not hold a run, or the run lacks the step; UsageError with the replay's
///         expected time if it exceeds kLongReplay and may_be_long is not set; anything Trainer::fit() throws before
///         the step.
[[nodiscard]] Replay replay_step(const ReplayRequest& request);

}  // namespace lockstep::worker
