// SPDX-License-Identifier: Apache-2.0
// Writes the run folder's files other than the checkpoints: log.jsonl, config.yml, result/, summary.json.
#pragma once

#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::train {

/// Writes log.jsonl on rank 0, with a line for each event of a curve or table. Throws: IoError from each event.
class LogSink final : public RunSink {
 public:
  /// `every_steps` is log_every_steps; 0 means no line for steps. `repeats_epoch`: the run resumes after an epoch's
  /// last step, before its evaluation, which an earlier process may have logged. Lifetime: `folder` outlives it.
  LogSink(RunFolder& folder, std::int64_t every_steps, bool repeats_epoch)
      : folder_(folder), every_steps_(every_steps), repeats_epoch_(repeats_epoch) {}

  void on_start(const RunStart& event) override;
  void on_step(const StepResult& event) override;
  void on_epoch(const EpochResult& event) override;
  void on_stage(const StageChange& event) override;
  void on_end(const RunEnd& event) override;

 private:
  RunFolder& folder_;
  std::int64_t every_steps_;
  bool repeats_epoch_;
};

/// Writes a run's folder, on rank 0. Throws: IoError from each event.
class FolderSink final : public RunSink {
 public:
  /// Lifetime: `folder` outlives it.
  explicit FolderSink(RunFolder& folder) : folder_(folder) {}

  /// From this call on, the folder holds a run. Until then, a start that failed because of its data may be repeated.
  void on_start(const RunStart& event) override;
  void on_evaluation(const EvaluationResult& event) override;
  void on_end(const RunEnd& event) override;

 private:
  RunFolder& folder_;
  std::string recipe_;
};

/// Draws an evaluation's images into `folder`/pictures. A failure to draw does not fail the run. `tally` may be null.
/// Returns: the files.
[[nodiscard]] std::vector<std::filesystem::path> draw_pictures(const std::filesystem::path& folder, const Tally* tally);

}  // namespace lockstep::train
