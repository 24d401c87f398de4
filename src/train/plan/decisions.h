// SPDX-License-Identifier: Apache-2.0
// Decisions about a run: the next step's learning rate, the last step, the next evaluation. They are pure functions of
// facts that every rank knows, so that all ranks agree.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/plan/plan.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

/// Returns true after step TrainerOptions::until_step, after which there is neither an evaluation nor a save.
[[nodiscard]] inline bool is_cut_short(std::int64_t until_step, const RunState& run) {
  return until_step > 0 && run.step >= until_step;
}

/// Returns the number of optimizer steps in the whole run, as far as known: a second stage may end it before
/// plan.total_steps.
[[nodiscard]] std::int64_t last_step(const TrainConfig& config, const Plan& plan, const RunState& run);

/// Returns the learning rate of the next step, which comes from the schedule, the plateau or the second stage.
[[nodiscard]] double learning_rate(const TrainConfig& config, const Plan& plan, const RunState& run);

/// Returns true if an evaluation is due at the end of `epoch`.
[[nodiscard]] bool is_evaluation_epoch(const TrainConfig& config, const Plan& plan, const RunState& run,
                                       std::int64_t epoch);

/// Like is_evaluation_epoch(), but without the evaluation at the end of the run, which a longer run would not have.
/// Requires: eval_every_epochs > 0.
[[nodiscard]] bool is_regular_evaluation(const TrainConfig& config, std::int64_t epoch);

/// Returns true if `metric` is as good as `value` or better.
[[nodiscard]] bool reaches(const Metric& metric, double value);

/// Returns true if an evaluation has reached the target. It checks the best evaluation, even if the target was
/// different at that time.
[[nodiscard]] bool has_reached(const TrainConfig::StopAt& target, const std::optional<Metric>& best);

/// Returns true if a checkpoint is due because `epoch` (from 0) has ended.
[[nodiscard]] bool is_due_after(const TrainConfig::Checkpoint& options, std::int64_t epoch);

/// Updates the plateau, if there is one, with an evaluation's metrics.
void note_metrics(const ScheduleConfig& config, const std::vector<Metric>& metrics,
                  std::optional<PlateauState>& plateau);

}  // namespace lockstep::train
