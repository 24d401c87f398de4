// SPDX-License-Identifier: Apache-2.0
// The run folder's files beside its log and its checkpoints: config.yml, result/, summary.json.
#pragma once

#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::train {

/// Writes a run's folder, on rank 0. Throws: IoError from each event.
class FolderSink final : public RunSink {
 public:
  /// Lifetime: `folder` outlives it.
  explicit FolderSink(RunFolder& folder) : folder_(folder) {}

  /// From now on the folder holds a run; before, a start that failed because of its data may be tried again in it.
  void on_start(const RunStart& event) override;
  void on_evaluation(const EvaluationResult& event) override;
  void on_end(const RunEnd& event) override;

 private:
  RunFolder& folder_;
  std::string recipe_;
};

/// Draws the pictures of an evaluation into `folder`/pictures. A failure to draw does not fail the run. `tally` is null
/// where there is none. Returns: the files.
[[nodiscard]] std::vector<std::filesystem::path> draw_pictures(const std::filesystem::path& folder, const Tally* tally);

}  // namespace lockstep::train
