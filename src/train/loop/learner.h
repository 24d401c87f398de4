// SPDX-License-Identifier: Apache-2.0
// Learner: what learns in a run. The replicas' network and optimizer, the moving average of the weights, the loss that
// is shown. Knows steps; of epochs, saves and what is reported it knows nothing.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/checkpoint/async_saver.h"
#include "lockstep/comm/job.h"
#include "lockstep/optim/ema.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/resume/start.h"
#include "train/step/loss_meter.h"
#include "train/step/step_runner.h"

namespace lockstep::train {

/// Which part of a sharded save this rank writes; the only one where rank 0 writes all.
struct SaveShare {
  int rank = 0;
  int world = 1;
};

/// Owned by the training thread. Lifetime: job, task and config outlive it.
///
/// Until build() there is only steps(): the data and the batch size are found with it. From build() on weights,
/// optimizer, scaler and average are the same on every rank between any two calls.
class Learner {
 public:
  /// `config`: with replicas and threads decided.
  Learner(const Job& job, Task& task, const TrainConfig& config);

  /// Network, optimizer, scaler and average as the checkpoint of `start` has them, or fresh.
  /// `init_from`: whose weights a fresh run begins with; may be empty.
  /// Collective: yes. Throws: DataError, UsageError where they do not fit.
  void build(const Start& start, const std::filesystem::path& init_from);

  /// The optimizer's step, then the average's. Collective: as WeightUpdate::update().
  /// Returns: false where the step was left out, on every rank.
  bool update(double lr);

  /// Evaluates the average where there is one, else the weights. Collective: yes.
  [[nodiscard]] Evaluation evaluate(const std::shared_ptr<Dataset>& set, const EvaluateOptions& options);

  /// Goes on from the first stage's best, the checkpoint `folder`/step-<step>; without an average in it, one begins.
  /// Collective: yes. Throws: as load_base().
  void go_back_to(const std::filesystem::path& folder, std::int64_t step);

  /// The states model, optimizer, ema and scaler, and of each the part that `share` writes.
  [[nodiscard]] StateParts state_parts(const SaveShare& share);

  [[nodiscard]] StepRunner& steps() { return steps_; }
  [[nodiscard]] const StepRunner& steps() const { return steps_; }
  /// From build() on.
  [[nodiscard]] LossMeter& loss() { return *loss_; }
  [[nodiscard]] bool has_average() const { return average_.has_value(); }
  /// Of the average from here on; nothing without one.
  void set_decay(double decay);

 private:
  [[nodiscard]] std::shared_ptr<TaskNet> make_net(const Start& start, const std::filesystem::path& init_from);
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
