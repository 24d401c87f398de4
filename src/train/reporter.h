// SPDX-License-Identifier: Apache-2.0
// All that a run says and writes: banner, progress, epoch table, log.jsonl, summary. The main rank has one, others
// none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/tensor/device_memory.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/trainer.h"
#include "lockstep/view/banner.h"
#include "lockstep/view/progress.h"
#include "lockstep/view/table.h"
#include "train/plan.h"
#include "train/resume.h"
#include "train/stages.h"

namespace lockstep::train {

/// The figures of one optimizer step.
struct StepReport {
  std::int64_t epoch = 0;          ///< from 0
  std::int64_t step_in_epoch = 0;  ///< done
  std::int64_t step = 0;           ///< done since the start of the run
  std::int64_t images = 0;         ///< of this step, over all replicas
  double lr = 0;
  std::optional<double> loss;
  std::vector<std::pair<std::string, double>> terms = {};  ///< its parts, where there are several
  std::optional<double> loss_scale;                        ///< none: the loss is not scaled
  std::int64_t skipped = 0;                                ///< steps left out since the start of the run
};

/// What loading cost.
struct LoaderReport {
  double wait = 0;               ///< share of the epoch that the rank which waited most spent waiting for batches
  std::int64_t bad_samples = 0;  ///< left out since the start of the run, over all replicas
};

/// The figures of one epoch.
struct EpochReport {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  double seconds = 0;  ///< of its training steps
  double images_per_s = 0;
  LoaderReport loading;
  double lr = 0;
  std::optional<double> loss;           ///< mean over the epoch
  std::optional<std::int64_t> skipped;  ///< steps of the epoch left out; none: the loss is not scaled
  MemoryUse memory;                     ///< the most of any rank so far
  std::vector<Metric> metrics;          ///< empty: not evaluated
};

/// What happened between two epochs of a run in two stages.
struct StageReport {
  StageMove move = StageMove::kNone;
  std::int64_t epoch = 0;  ///< epochs done
  std::int64_t step = 0;
  StageState stages;             ///< after it
  std::int64_t epochs = 0;       ///< of the whole run, as far as it is known now
  std::int64_t total_steps = 0;  ///< the same in steps
  bool averaged = false;         ///< there is a moving average
};

class Reporter {
 public:
  /// Opens the run folder. Throws: as RunFolder.
  Reporter(const TrainConfig& config, const TrainerOptions& options, const RunPlace& place);

  /// `settings`: for config.yml.
  void start(const view::BannerInfo& banner, const Plan& plan, const std::string& settings, const StageState& stages);
  /// The run goes on from `step`: what the log knows of later steps is dropped, they come again.
  void resume(std::int64_t step, int world_size);
  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  void stage(const StageReport& report);
  /// Writes what an evaluation has found into RUN/result. `tally`: null where there is none.
  void results(const Tally* tally, std::int64_t epoch);
  /// `text`: the task's own words on the last evaluation; `tally`: that evaluation's, null where there is none.
  void finish(const TrainResult& result, std::int64_t world_size, const std::string& text, const Tally* tally);

  /// The run leaves before its end.
  void stopped(const TrainResult& result);

  /// The run has been to its end before.
  [[nodiscard]] bool has_summary() const;

  /// Evaluation and saving are no training time.
  void pause();
  void evaluating(std::int64_t done, std::int64_t total);

  [[nodiscard]] RunFolder& folder() noexcept { return folder_; }

 private:
  std::vector<std::filesystem::path> draw(const Tally* tally);
  void print_header(const EpochReport& report);
  void print_row(const EpochReport& report);

  const TrainConfig& config_;
  const TrainerOptions& options_;
  RunFolder folder_;
  Plan plan_;
  std::int64_t epochs_ = 0;
  view::ProgressBar bar_;
  view::RateMeter rate_;
  std::optional<view::Table> table_;
  std::size_t metric_columns_ = 0;
};

}  // namespace lockstep::train
