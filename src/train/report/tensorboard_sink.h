// SPDX-License-Identifier: Apache-2.0
// Writes a run's TensorBoard event files: the same points as in log.jsonl, plus images, settings and results.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/run_sink.h"
#include "lockstep/train/train_config.h"
#include "lockstep/view/event_file.h"

namespace lockstep::train {

/// Returns the folder that the setting `tensorboard` selects for the run in `run_dir`; none if it is "none".
[[nodiscard]] std::optional<std::filesystem::path> tensorboard_folder(const std::string& tensorboard,
                                                                      const std::filesystem::path& run_dir);

/// Writes event files, on rank 0. Throws: IoError from each event.
class TensorBoardSink final : public RunSink {
 public:
  /// Lifetime: `config` outlives it.
  TensorBoardSink(std::filesystem::path folder, const TrainConfig& config)
      : folder_(std::move(folder)), config_(config) {}

  void on_start(const RunStart& event) override;
  void on_gradients(const StepGradients& event) override;
  void on_step(const StepResult& event) override;
  void on_evaluation(const EvaluationResult& event) override;
  void on_epoch(const EpochResult& event) override;
  void on_stage(const StageChange& event) override;
  void on_end(const RunEnd& event) override;

 private:
  void add_pictures(const RunEnd& event);

  std::filesystem::path folder_;
  const TrainConfig& config_;
  std::optional<view::EventFile> file_;  ///< set by on_start()
};

}  // namespace lockstep::train
