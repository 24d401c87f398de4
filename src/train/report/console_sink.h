// SPDX-License-Identifier: Apache-2.0
// The output for a person at the terminal: banner, progress bar, table of epochs, summary.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/train/run_sink.h"
#include "lockstep/train/trainer.h"
#include "lockstep/view/progress.h"
#include "lockstep/view/table.h"

namespace lockstep::train {

/// Shows a run on the console of rank 0. With LOCKSTEP_QUIET, it prints only the final line of the bar.
class ConsoleSink final : public RunSink {
 public:
  /// Lifetime: `config` and `options` outlive it.
  ConsoleSink(const TrainConfig& config, const TrainerOptions& options);

  void on_start(const RunStart& event) override;
  void on_step(const StepResult& event) override;
  void on_evaluating(const EvaluationProgress& event) override;
  void on_epoch(const EpochResult& event) override;
  void on_stage(const StageChange& event) override;
  void on_end(const RunEnd& event) override;

 private:
  void print_header(const EpochResult& event);
  void print_row(const EpochResult& event);
  void keep_findings(const EpochResult& event);
  void print_findings();
  void print_report(const RunEnd& event);
  void print_stopped(const RunEnd& event);
  void print_complete(const RunEnd& event);

  const TrainConfig& config_;
  const TrainerOptions& options_;
  RunStart run_;  ///< the start event, with the run's length as currently known
  view::ProgressBar bar_;
  std::optional<view::Table> table_;
  std::size_t metric_columns_ = 0;
  std::vector<view::Finding> said_;  ///< step report findings already printed
  std::vector<view::Finding> new_;   ///< findings to print at the next step; the end of the run prints all findings
};

}  // namespace lockstep::train
