// SPDX-License-Identifier: Apache-2.0
// StepReporter: gathers all ranks' metrics once per epoch and reports the findings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/train_config.h"
#include "lockstep/view/step_report.h"
#include "train/report/process_counters.h"
#include "train/step/step_runner.h"

namespace lockstep::train {

/// Owned by the training thread.
class StepReporter {
 public:
  /// Lifetime: the arguments outlive it.
  StepReporter(const Job& job, StepRunner& steps, const TrainConfig& config);

  /// Starts measuring, before the first step, which follows `step`; earlier times do not count.
  void start(std::int64_t step);
  /// Returns the report of the steps since the previous call, up to `step`; the same on every rank. Collective: yes.
  [[nodiscard]] std::shared_ptr<const view::StepReport> end_epoch(std::int64_t step);
  /// Returns the report of all steps that end_epoch() has seen; null before its first call.
  [[nodiscard]] std::shared_ptr<const view::StepReport> whole() const;

 private:
  [[nodiscard]] view::RankFigures own_figures();
  [[nodiscard]] view::ReportSettings settings() const;

  const Job& job_;
  StepRunner& steps_;
  const TrainConfig& config_;
  ProcessCounters before_;
  NetworkCounters network_before_;
  DelayCounter training_delays_;
  DelayCounter loading_delays_;
  std::int64_t first_step_ = 1;  ///< first step of the whole run
  std::int64_t since_step_ = 1;  ///< first step of the next report
  std::int64_t last_step_ = 0;
  std::vector<view::RankFigures> sums_;  ///< metrics of the whole run, by rank
};

}  // namespace lockstep::train
