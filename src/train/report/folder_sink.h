// SPDX-License-Identifier: Apache-2.0
// The run folder's files beside its log and its checkpoints: config.yml, result/, summary.json.
#pragma once

#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_sink.h"

namespace lockstep::train {

/// Rank 0's. Throws: IoError from each event.
class FolderSink final : public RunSink {
 public:
  /// Lifetime: `folder` outlives it.
  explicit FolderSink(RunFolder& folder) : folder_(folder) {}

  /// From here on the folder holds a run: a start that failed over its data may be tried again in the same folder.
  void on_start(const RunStart& event) override;
  void on_evaluation(const EvaluationResult& event) override;
  void on_end(const RunEnd& event) override;

 private:
  RunFolder& folder_;
  std::string recipe_;
};

/// Draws the pictures of an evaluation into `folder`/pictures. Pictures are a kindness: a run that trained well does
/// not fail over them. `tally`: null where there is none. Returns: the files.
[[nodiscard]] std::vector<std::filesystem::path> draw_pictures(const std::filesystem::path& folder, const Tally* tally);

}  // namespace lockstep::train
