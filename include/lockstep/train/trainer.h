// SPDX-License-Identifier: Apache-2.0
// Trainer: the training loop that all recipes share. Around a Task, it shards data across the ranks and handles mixed
// precision, schedule, evaluation, progress, logs and checkpoints.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/train/run_sink.h"
#include "lockstep/train/step_watch.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "lockstep/train/train_result.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a run that are not settings: its folder, its start and its sinks.
struct TrainerOptions {
  std::string recipe = "custom";  ///< the name in the banner, config.yml and summary.json
  std::filesystem::path run_dir;  ///< the run folder; empty: `runs/<recipe>-<time>`, or the run that `resume` names
  std::string resume =
      "none";  ///< none, auto (run_dir's newest valid checkpoint, if any), or a checkpoint's path or URL
  std::filesystem::path init_from;  ///< a checkpoint or file (see load_weights) with the initial weights of a new run
  bool init_from_partial = false;   ///< accepts an `init_from` that fits less than half of the model's elements
  /// Lets a run resume with a number of `replicas` (the parts of a batch) that differs from its checkpoint's. Samples,
  /// steps and learning rate stay the same, but the result differs in its last bits (docs/guide/resume.md). If false, a
  /// different number is an error.
  bool allow_other_bits = false;
  std::chrono::duration<double> max_time{0};  ///< after this time the run saves and ends; 0: no limit
  /// A folder in which all ranks save the run, at the same step, if its own folder is removed or can no longer be
  /// written; the run then ends with the IoError. Empty: it ends without saving.
  std::filesystem::path rescue;
  bool experiment = false;   ///< run_dir is an experiment's folder (RunFolderOptions)
  bool has_options = false;  ///< messages name options such as --resume and --set (parse_arguments() sets this); false:
                             ///< they name these fields
  /// Sinks that receive the run's events in addition to the Trainer's own, on every rank, in this order.
  std::vector<std::shared_ptr<RunSink>> sinks;
  /// The number of steps to profile after the first three: rank 0 prints how long the parts of a step take, and every
  /// rank writes run_dir/trace/rank-R.json. 0: none. It does not change the result (docs/guide/profile.md).
  std::int64_t profile = 0;
  /// The step after which the run ends, without an evaluation or a checkpoint there, for a replay. 0: the last step.
  std::int64_t until_step = 0;
  std::shared_ptr<StepWatch> watch;  ///< observes this rank's steps from inside; may be null
  bool has_commands = false;  ///< `lockstep eval` and `predict` support the recipe, so the run suggests them at its end
};

/// Trains a task. On CPUs the result is bit for bit the same on any number of ranks up to config.replicas, with any
/// number of loader workers, and however often it is killed and resumed (docs/design/exactness.md).
///
/// Example: recipes/captcha; `lockstep::Trainer(job, task, config, {.recipe = "digits"}).fit();`
class Trainer {
 public:
  /// Changes `config`: `replicas`, `threads` and a `batch_size` of auto receive the values in use. Lifetime: `task` and
  /// `config` outlive it.
  Trainer(Job job, Task& task, TrainConfig& config, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end: banner, epochs, evaluations, checkpoints, summary.
  ///
  /// SIGTERM, SIGUSR1 and options.max_time on any rank end it early: all ranks agree on a step, save, and return with
  /// stopped_by set (the program should then exit with 143, ExitCode::kTerminated). A second SIGTERM, at least a second
  /// later, ends the process. Under Slurm, SIGUSR1 and max_time also ask Slurm to requeue the job. Signal handlers that
  /// the program has set are kept.
  ///
  /// Collective: yes; every rank calls it once.
  /// Blocks: until training ends.
  /// With stages.stop_epoch, all ranks continue from the best checkpoint after that many epochs (see
  /// TrainConfig::Stages).
  ///
  /// A non-finite loss ends the run on every rank; its batch is saved in RUN/bad_batches. Non-finite weights, moments
  /// or averages end the run when they are about to be saved (checkpoint.require_finite).
  ///
  /// Throws: UsageError (settings, a run folder in use, settings that differ from the checkpoint to resume), DataError
  ///         (samples, a checkpoint that does not verify, a non-finite loss or weights), ResourceError
  ///         (memory), IoError, PeerError, TimeoutError.
  TrainResult fit();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
