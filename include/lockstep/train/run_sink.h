// SPDX-License-Identifier: Apache-2.0
// RunSink: receives a run's steps, evaluations, epochs and saves while it runs, as Lightning's callbacks do.
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
#include "lockstep/view/step_report.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Setup is done; the first step comes next.
struct RunStart {
  int rank = 0;                   ///< this rank
  int world_size = 1;             ///< number of ranks
  std::string recipe;             ///< name of the recipe, or of the program's task
  std::filesystem::path run_dir;  ///< the run folder
  std::string settings;           ///< the settings in use, as YAML
  std::int64_t step = 0;          ///< steps already done: 0, or the step from which the run resumes
  bool folder_has_run = false;   ///< true if the run folder may hold events of steps that will be repeated; rank 0 only
  std::int64_t epochs = 0;       ///< epochs of the whole run, as far as known
  std::int64_t total_steps = 0;  ///< steps of the whole run, as far as known
  std::int64_t steps_per_epoch = 0;  ///< optimizer steps
  std::int64_t total_batch = 0;      ///< samples per step, over all replicas
  std::string banner;                ///< the lines that the console shows; rank 0 only
};

/// A step's digests (docs/formats/digests.md): two runs with equal digests are bit for bit equal.
struct StepDigest {
  std::uint64_t loss = 0;       ///< the bits of the loss
  std::uint64_t gradients = 0;  ///< digest of the reduced gradients; 0: the step was skipped
  std::uint64_t weights = 0;    ///< digest of the weights after the step
};

/// One optimizer step. Its loss is averaged over all replicas during the next step, so the event comes one step late.
struct StepResult {
  std::int64_t epoch = 0;          ///< counted from 0
  std::int64_t step_in_epoch = 0;  ///< steps of the epoch done so far
  std::int64_t step = 0;           ///< steps done since the start of the run
  std::int64_t images = 0;         ///< images of this step, over all replicas
  double lr = 0;                   ///< learning rate of this step
  std::optional<double> loss;      ///< mean over all replicas; none: it was not finite, and the step was skipped
  std::vector<std::pair<std::string, double>> terms = {};  ///< the parts of the loss, if there are several
  std::optional<double> loss_scale;                        ///< scale of the loss; none if it is not scaled
  std::int64_t skipped = 0;                                ///< steps skipped since the start of the run
  std::optional<StepDigest> digest;                        ///< digests of the step; none: TrainConfig::digests is off
  std::optional<double> images_per_s;  ///< speed over the last few seconds; none until there is an interval to measure
  std::optional<std::int64_t> proved;  ///< the last step that the guard has verified; none if it is off or unavailable
};

/// The gradients of a step have been reduced, and the weights have not changed yet. The event comes before the step's
/// StepResult, at steps that are multiples of TrainConfig::tensorboard_histograms.
struct StepGradients {
  std::int64_t step = 0;           ///< the current step
  const torch::nn::Module& model;  ///< the task's model; each parameter's grad() is the mean over all replicas, times
                                   ///< `loss_scale`; with optimizer.zero only in this rank's part
  double loss_scale = 1;           ///< scale of the loss; 1 if it is not scaled
};

/// The progress of an evaluation on this rank.
struct EvaluationProgress {
  std::int64_t done = 0;   ///< samples evaluated so far
  std::int64_t total = 0;  ///< samples of this rank
};

/// The result of an evaluation, the same on every rank.
struct EvaluationResult {
  std::int64_t epoch = 0;              ///< counted from 0
  std::int64_t step = 0;               ///< steps done since the start of the run
  std::vector<Metric> metrics;         ///< measured over all samples
  std::shared_ptr<const Tally> tally;  ///< the task's tally, if it has one
};

/// An epoch has ended, including its evaluation.
struct EpochResult {
  std::int64_t epoch = 0;   ///< counted from 0
  std::int64_t step = 0;    ///< steps done since the start of the run
  double seconds = 0;       ///< duration of the epoch's training steps, in seconds
  double images_per_s = 0;  ///< speed over all ranks
  double data_wait = 0;     ///< fraction of the epoch that the rank with the longest wait spent waiting for batches
  std::int64_t bad_samples = 0;         ///< samples skipped since the start of the run, over all replicas
  double lr = 0;                        ///< learning rate of the epoch's last step
  std::optional<double> loss;           ///< mean over the epoch
  std::optional<std::int64_t> skipped;  ///< steps of the epoch that were skipped; none: the loss is not scaled
  MemoryUse memory;                     ///< the maximum over all ranks so far
  std::vector<Metric> metrics;          ///< metrics of the epoch's evaluation; empty if it was not evaluated
  std::shared_ptr<const view::StepReport> step_report = {};  ///< how long the parts of its steps took, and advice
};

/// The weights were replaced by the best weights of the first stage, between two epochs of a run with two stages.
struct StageChange {
  bool rolled_back = false;      ///< true: the second stage returns to these weights; false: the second stage begins
  std::string reason;            ///< "stop_epoch", "patience" or "no_better"
  std::int64_t epoch = 0;        ///< epochs done
  std::int64_t step = 0;         ///< steps done since the start of the run
  std::optional<double> decay;   ///< decay of the moving average from now on; none: there is no average
  std::int64_t from_step = 0;    ///< the step of the checkpoint with these weights
  std::int64_t epochs = 0;       ///< epochs of the whole run, as far as known now
  std::int64_t total_steps = 0;  ///< steps of the whole run, as far as known now
};

/// A checkpoint has become durable.
struct SaveResult {
  std::int64_t step = 0;           ///< the step that was saved
  std::filesystem::path path;      ///< the step folder
  std::vector<std::string> names;  ///< names that now refer to it, such as "best"
};

/// The run ends: it is complete, or it was saved and stopped early (result.stopped_by).
struct RunEnd {
  TrainResult result;                           ///< the result of fit()
  int world_size = 1;                           ///< number of ranks
  std::int64_t total_steps = 0;                 ///< steps of the whole run
  std::string report;                           ///< the task's own report on the last evaluation
  std::vector<std::filesystem::path> pictures;  ///< images drawn by that evaluation; rank 0 only
  std::shared_ptr<const view::StepReport> step_report =
      {};  ///< report on all epochs that ended in this process; null: none
};

/// Receives the events of a run. A sink overrides the functions that it needs.
///
/// Every rank has its own sink and calls it on the training thread, so training waits for it. Events hold the same
/// values on every rank unless a field's comment says otherwise; write files only if RunStart::rank is 0. on_save is
/// called only on rank 0, and at a later step if saves are asynchronous.
/// Throws: an exception from a sink ends the run like any exception from the program (ExitCode::kProgram).
///
/// Example: examples/guide/sinks.cpp
class RunSink {
 public:
  virtual ~RunSink() = default;
  /// Setup is done, and the first step comes next.
  virtual void on_start(const RunStart& /*event*/) {}
  /// The gradients of a step have been reduced. It is called only at the steps that StepGradients describes.
  virtual void on_gradients(const StepGradients& /*event*/) {}
  /// A step is done. It is called while the next step runs.
  virtual void on_step(const StepResult& /*event*/) {}
  /// An evaluation makes progress on this rank.
  virtual void on_evaluating(const EvaluationProgress& /*event*/) {}
  /// An evaluation is done, over all ranks.
  virtual void on_evaluation(const EvaluationResult& /*event*/) {}
  /// An epoch is done, including its evaluation.
  virtual void on_epoch(const EpochResult& /*event*/) {}
  /// The second stage begins, or returns to earlier weights.
  virtual void on_stage(const StageChange& /*event*/) {}
  /// A checkpoint is on disk. Called only on rank 0.
  virtual void on_save(const SaveResult& /*event*/) {}
  /// The run ends. No event follows.
  virtual void on_end(const RunEnd& /*event*/) {}
};

/// A sink made of functions instead of a class; an event whose function is not set is ignored.
struct RunCallbacks {
  std::function<void(const RunStart&)> on_start = {};               ///< see RunSink
  std::function<void(const StepResult&)> on_step = {};              ///< see RunSink
  std::function<void(const EvaluationResult&)> on_evaluation = {};  ///< see RunSink
  std::function<void(const EpochResult&)> on_epoch = {};            ///< see RunSink
  std::function<void(const StageChange&)> on_stage = {};            ///< see RunSink
  std::function<void(const SaveResult&)> on_save = {};              ///< see RunSink; rank 0 only
  std::function<void(const RunEnd&)> on_end = {};                   ///< see RunSink
};

/// Creates a sink that calls functions.
/// Example: options.sinks.push_back(run_callbacks({.on_epoch = [](const EpochResult& e) { plot(e.epoch, *e.loss); }}));
[[nodiscard]] std::shared_ptr<RunSink> run_callbacks(RunCallbacks callbacks);

}  // namespace lockstep

#pragma GCC visibility pop
