// SPDX-License-Identifier: Apache-2.0
// Learner, the trained parts of a run: the replicas' network, the optimizer, the moving average of the weights, and the
// loss. It deals with steps, but not with epochs, saves or reports.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/comm/job.h"
#include "lockstep/optim/ema.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/resume/init_from.h"
#include "train/resume/start.h"
#include "train/step/loss_meter.h"
#include "train/step/step_runner.h"

namespace lockstep::train {

/// The part of a sharded save that this rank writes; by default all of it, written by rank 0.
struct SaveShare {
  int rank = 0;
  int world = 1;
};

/// Owned by the training thread. Lifetime: job, task and config outlive it.
///
/// Before build(), only steps() may be used, to set up the data and find the batch size. After build(), weights,
/// optimizer, scaler and average are the same on every rank between any two calls.
class Learner {
 public:
  /// `config` has the final values of replicas and threads.
  Learner(const Job& job, Task& task, const TrainConfig& config);

  /// Creates network, optimizer, scaler and average, either fresh or with the states from `start`'s checkpoint.
  /// `init_from` names the initial weights of a fresh run; it may be empty.
  /// Collective: yes. Throws: DataError, UsageError if states or weights do not match.
  void build(const Start& start, const FirstWeights& init_from);

  /// Runs the optimizer step, then updates the average. Collective: if WeightUpdate::update() is.
  /// Returns: false if every rank skipped the step.
  bool update(double lr);

  /// Evaluates the average if there is one, otherwise the weights. Collective: yes.
  [[nodiscard]] Evaluation evaluate(const std::shared_ptr<Dataset>& set, const EvaluateOptions& options);

  /// Continues from the first stage's best checkpoint, `folder`/step-<step>. If that checkpoint has no average, a new
  /// one is started. Collective: yes. Throws: anything load_base() throws.
  void go_back_to(const std::filesystem::path& folder, std::int64_t step);

  /// Returns the parts of the model, optimizer, ema and scaler states that `share` writes.
  [[nodiscard]] StateParts state_parts(const SaveShare& share);

  /// Returns the names of the trained parameters.
  [[nodiscard]] std::set<std::string> learnt();

  [[nodiscard]] StepRunner& steps() { return steps_; }
  [[nodiscard]] const StepRunner& steps() const { return steps_; }
  /// Valid after build().
  [[nodiscard]] LossMeter& loss() { return *loss_; }
  [[nodiscard]] bool has_average() const { return average_.has_value(); }
  /// Sets the decay of the average; does nothing without an average.
  void set_decay(double decay);

 private:
  [[nodiscard]] std::shared_ptr<TaskNet> make_net(const Start& start, const FirstWeights& init_from);
  void restore(const Start& start);
  void build_average(const Start& start);
  void begin_average();

  const Job& job_;
  Task& task_;
  const TrainConfig& config_;
  StepRunner steps_;
  std::optional<EMA> average_;
  std::optional<LossMeter> loss_;
};

}  // namespace lockstep::train
