// SPDX-License-Identifier: Apache-2.0
// Trainer: the loop that every recipe shares. Data over the ranks, mixed precision, schedule, evaluation, progress,
// logs and checkpoints, around a Task.
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

/// The folder of a run, how the run begins, and its sinks.
struct TrainerOptions {
  std::string recipe = "custom";  ///< the name in the banner, config.yml and summary.json
  std::filesystem::path run_dir;  ///< empty: `runs/<recipe>-<time>`, or the run that `resume` names
  std::string resume =
      "none";  ///< none; auto: run_dir's newest valid checkpoint, if any; or a checkpoint's path or URL
  std::filesystem::path init_from;  ///< a checkpoint or file (see load_weights) with the weights that a fresh run
                                    ///< starts from
  bool init_from_partial = false;   ///< `init_from` may fit less than half of the model's elements
  /// A run that resumes may have another `replicas` than its checkpoint: each batch is divided into so many parts. Its
  /// samples, steps and learning rate stay, and the result has other bits (docs/guide/resume.md). false: an error.
  bool allow_other_bits = false;
  std::chrono::duration<double> max_time{0};  ///< after this time the run saves and leaves; 0: no limit
  /// The folder in which all ranks save the run, at one step, when its own folder is removed or its disk refuses
  /// writes; the run then ends with that IoError. Empty: it ends without saving.
  std::filesystem::path rescue;
  bool experiment = false;   ///< run_dir is an experiment's folder (RunFolderOptions)
  bool has_options = false;  ///< messages name --resume, --set and so on, which parse_arguments() sets; false: they
                             ///< name these fields
  /// Sinks that receive the run's events besides the Trainer's own, on every rank, in this order.
  std::vector<std::shared_ptr<RunSink>> sinks;
  /// Profiles this many steps after the first three: rank 0 prints where the time of a step goes, and every rank writes
  /// run_dir/trace/rank-R.json. 0: none. The result is the same (docs/guide/profile.md).
  std::int64_t profile = 0;
  /// The run ends after this step, without an evaluation or a checkpoint of it: a replay. 0: at its end.
  std::int64_t until_step = 0;
  std::shared_ptr<StepWatch> watch;  ///< sees this rank's steps from inside; may be null
  bool has_commands = false;  ///< `lockstep eval` and `predict` know the recipe, so the end of a run proposes them
};

/// Trains a task. On CPUs the result has the same bits on any number of ranks up to config.replicas, with any number of
/// loader workers, and however often the run was killed and resumed (docs/design/exactness.md).
///
/// Example: recipes/captcha; `lockstep::Trainer(job, task, config, {.recipe = "digits"}).fit();`
class Trainer {
 public:
  /// Changes `config`: `replicas`, `threads` and a `batch_size` that is auto get the values that are used. Lifetime:
  /// `task` and `config` outlive it.
  Trainer(Job job, Task& task, TrainConfig& config, TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Trains to the end: banner, epochs, evaluations, checkpoints, summary.
  ///
  /// SIGTERM, SIGUSR1 and options.max_time on any rank end it early: all ranks agree on a step, save, and return with
  /// stopped_by set (a program then ends with 143, as ExitCode::kTerminated). A second SIGTERM, at least a second
  /// later, ends the process. Under Slurm, SIGUSR1 and max_time also ask Slurm to start the job again. Handlers that
  /// the program has set are kept.
  ///
  /// Collective: yes; every rank calls it once.
  /// Blocks: until training ends.
  /// With stages.stop_epoch, all ranks continue from the best checkpoint after that many epochs (see
  /// TrainConfig::Stages).
  ///
  /// A loss that is not finite ends the run on every rank; that batch is kept in RUN/bad_batches. Weights, moments or
  /// an average that are not finite end it when they would be saved (checkpoint.require_finite).
  ///
  /// Throws: UsageError (settings, a run folder in use, settings that differ from those of the checkpoint to resume),
  ///         DataError (samples, a checkpoint that does not verify, a loss or weights that are not finite),
  ///         ResourceError (memory), IoError, PeerError, TimeoutError.
  TrainResult fit();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
