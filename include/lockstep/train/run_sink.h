// SPDX-License-Identifier: Apache-2.0
// RunSink: hears of a run's steps, evaluations, epochs and saves while it runs, as Lightning's callbacks do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/tensor/device_memory.h"
#include "lockstep/train/tally.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_result.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The set-up is done, the first step comes next.
struct RunStart {
  int rank = 0;
  int world_size = 1;
  std::string recipe;
  std::filesystem::path run_dir;
  std::string settings;              ///< YAML, as they were decided
  std::int64_t step = 0;             ///< steps done before: 0, or where the run resumes
  bool folder_has_run = false;       ///< rank 0's: the run folder may hold events of steps that come again
  std::int64_t epochs = 0;           ///< of the whole run, as far as it is known
  std::int64_t total_steps = 0;      ///< the same in steps
  std::int64_t steps_per_epoch = 0;  ///< optimizer steps
  std::int64_t total_batch = 0;      ///< samples a step, over all replicas
  std::string banner;                ///< the lines that the console shows; rank 0's
};

/// One optimizer step. Its loss is combined over all replicas while the next step runs, so the event comes a step late.
struct StepResult {
  std::int64_t epoch = 0;          ///< from 0
  std::int64_t step_in_epoch = 0;  ///< done
  std::int64_t step = 0;           ///< done since the start of the run
  std::int64_t images = 0;         ///< of this step, over all replicas
  double lr = 0;
  std::optional<double> loss;                              ///< mean over all replicas; none: not finite, left out
  std::vector<std::pair<std::string, double>> terms = {};  ///< its parts, where there are several
  std::optional<double> loss_scale;                        ///< none: the loss is not scaled
  std::int64_t skipped = 0;                                ///< steps left out since the start of the run
  std::optional<double> images_per_s;                      ///< over the last seconds; none until there is an interval
};

/// How far an evaluation is, on this rank.
struct EvaluationProgress {
  std::int64_t done = 0;
  std::int64_t total = 0;
};

/// What an evaluation has found: the same on every rank.
struct EvaluationResult {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t step = 0;
  std::vector<Metric> metrics;
  std::shared_ptr<const Tally> tally;  ///< the task's, where it has one
};

/// An epoch has ended, its evaluation included.
struct EpochResult {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t step = 0;   ///< done since the start of the run
  double seconds = 0;      ///< of its training steps
  double images_per_s = 0;
  double data_wait = 0;          ///< share of the epoch that the rank which waited most spent waiting for batches
  std::int64_t bad_samples = 0;  ///< left out since the start of the run, over all replicas
  double lr = 0;
  std::optional<double> loss;           ///< mean over the epoch
  std::optional<std::int64_t> skipped;  ///< steps of the epoch left out; none: the loss is not scaled
  MemoryUse memory;                     ///< the most of any rank so far
  std::vector<Metric> metrics;          ///< empty: not evaluated
};

/// Between two epochs of a run in two stages the weights became those of the first stage's best.
struct StageChange {
  bool rolled_back = false;  ///< the second stage begins with them again; else it begins
  std::string reason;        ///< "stop_epoch", "patience" or "no_better"
  std::int64_t epoch = 0;    ///< epochs done
  std::int64_t step = 0;
  std::optional<double> decay;   ///< of the moving average from here on; none: there is no average
  std::int64_t from_step = 0;    ///< whose checkpoint the weights are of
  std::int64_t epochs = 0;       ///< of the whole run, as far as it is known now
  std::int64_t total_steps = 0;  ///< the same in steps
};

/// A checkpoint is durable.
struct SaveResult {
  std::int64_t step = 0;
  std::filesystem::path path;
  std::vector<std::string> names;  ///< "best" and its like, that it has earned
};

/// The run ends: complete, or (result.stopped_by) saved and left before its end.
struct RunEnd {
  TrainResult result;
  int world_size = 1;
  std::int64_t total_steps = 0;                 ///< of the whole run
  std::string report;                           ///< the task's own words on the last evaluation
  std::vector<std::filesystem::path> pictures;  ///< drawn of that evaluation; rank 0's
};

/// Hears of a run by overriding what it is interested in.
///
/// Every rank has its own, and calls it in the thread that trains: training waits for it. Events hold the same values
/// on every rank, but for what says otherwise; a file is best written where RunStart::rank is 0. on_save is called on
/// rank 0 only, at a later step where saves are asynchronous.
/// Throws: what a sink throws ends the run as an exception of the program (ExitCode::kProgram).
///
/// Example: examples/sinks.cpp
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual void on_start(const RunStart& /*event*/) {}
  virtual void on_step(const StepResult& /*event*/) {}
  virtual void on_evaluating(const EvaluationProgress& /*event*/) {}
  virtual void on_evaluation(const EvaluationResult& /*event*/) {}
  virtual void on_epoch(const EpochResult& /*event*/) {}
  virtual void on_stage(const StageChange& /*event*/) {}
  virtual void on_save(const SaveResult& /*event*/) {}
  virtual void on_end(const RunEnd& /*event*/) {}
};

/// Functions in the place of a class; those that are not set hear nothing.
struct RunCallbacks {
  std::function<void(const RunStart&)> on_start = {};
  std::function<void(const StepResult&)> on_step = {};
  std::function<void(const EvaluationResult&)> on_evaluation = {};
  std::function<void(const EpochResult&)> on_epoch = {};
  std::function<void(const StageChange&)> on_stage = {};
  std::function<void(const SaveResult&)> on_save = {};
  std::function<void(const RunEnd&)> on_end = {};
};

/// Example: options.sinks.push_back(run_callbacks({.on_epoch = [](const EpochResult& e) { plot(e.epoch, *e.loss); }}));
[[nodiscard]] std::shared_ptr<RunSink> run_callbacks(RunCallbacks callbacks);

}  // namespace lockstep

#pragma GCC visibility pop
