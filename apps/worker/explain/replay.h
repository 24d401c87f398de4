// SPDX-License-Identifier: Apache-2.0
// Computes a step of an earlier run again in this one process: from the nearest checkpoint before it, in a folder that
// is removed afterwards. The run itself stays unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/view/digest_chain.h"
#include "worker/explain/step_recorder.h"

namespace lockstep::worker {

struct ReplayRequest {
  std::string run;                ///< the run folder
  std::int64_t step = 0;          ///< the step to record
  std::vector<std::string> sets;  ///< settings changed for the replay, a.b=c each
  std::string device;             ///< as --device; empty: the default of a run here
  bool operators = false;         ///< RecorderOptions::operators
  bool single_losses = false;     ///< RecorderOptions::single_losses
  bool may_be_long = false;       ///< go on if the replay takes more than kLongReplay
};

/// The results of a replay.
struct Replay {
  StepRecord record;
  std::vector<LayerNorms> norms;        ///< of the replayed steps, the recorded one last
  std::vector<at::Tensor> pictures;     ///< StepRecorder::pictures()
  std::vector<std::string> loss_names;  ///< names of the loss's parts, if it has several
  std::string checkpoint;               ///< the one it resumed from; empty: the beginning
  std::string failure;                  ///< the error that ended the step; empty: none
};

inline constexpr double kLongReplay = 120;  ///< seconds

/// Returns the run's file of settings. Throws: DataError if the folder holds no run.
[[nodiscard]] std::filesystem::path settings_of_run(const std::filesystem::path& run);

/// Returns true if the replayed step has the same digests as in the run's chain.
[[nodiscard]] bool has_digest(const StepRecord& record, const view::DigestRecord& own);

/// Replays up to the step. Blocks: while it trains.
/// Throws: DataError if the folder holds no run, or the run has no such step; UsageError with the time that the replay
///         would take, if it is longer than kLongReplay and may_be_long is not set; as Trainer::fit() for an error
///         before the step.
[[nodiscard]] Replay replay_step(const ReplayRequest& request);

}  // namespace lockstep::worker
