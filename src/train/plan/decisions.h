// SPDX-License-Identifier: Apache-2.0
// Where a run stands in its plan: what the next step's learning rate is, where it ends, when it is evaluated. Pure
// functions of what every rank knows, so that all ranks agree.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/plan/plan.h"
#include "train/plan/run_state.h"

namespace lockstep::train {

/// Optimizer steps of the whole run, as far as it is known: a second stage may end it before plan.total_steps.
[[nodiscard]] std::int64_t last_step(const TrainConfig& config, const Plan& plan, const RunState& run);

/// Of the next step: the schedule's, what the plateau has left of it, or the second stage's own.
[[nodiscard]] double learning_rate(const TrainConfig& config, const Plan& plan, const RunState& run);

/// The end of `epoch` is evaluated, where there is something to evaluate.
[[nodiscard]] bool is_evaluation_epoch(const TrainConfig& config, const Plan& plan, const RunState& run,
                                       std::int64_t epoch);

/// `metric` is as good as `value` or better.
[[nodiscard]] bool reaches(const Metric& metric, double value);

/// Some evaluation has reached the target: the best one tells, also where the target was another when it was made.
[[nodiscard]] bool has_reached(const TrainConfig::StopAt& target, const std::optional<Metric>& best);

/// A checkpoint is due because `epoch` (from 0) has ended.
[[nodiscard]] bool is_due_after(const TrainConfig::Checkpoint& options, std::int64_t epoch);

/// An evaluation's metrics move the plateau, where there is one.
void note_metrics(const ScheduleConfig& config, const std::vector<Metric>& metrics,
                  std::optional<PlateauState>& plateau);

}  // namespace lockstep::train
