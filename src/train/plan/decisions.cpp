// SPDX-License-Identifier: Apache-2.0
#include "train/plan/decisions.h"

#include <algorithm>

#include "train/settings/schedule_choice.h"

namespace lockstep::train {

std::int64_t last_step(const TrainConfig& config, const Plan& plan, const RunState& run) {
  return std::min(plan.total_steps, last_epoch(config, run.stages) * plan.steps_per_epoch);
}

double learning_rate(const TrainConfig& config, const Plan& plan, const RunState& run) {
  if (run.stages.stage == 2 && config.stages.lr > 0) return config.stages.lr * plan.lr_factor;
  const double lr = plan.schedule.lr(run.step);
  return run.plateau ? std::min(lr, run.plateau->lr) : lr;
}

bool is_evaluation_epoch(const TrainConfig& config, const Plan& plan, const RunState& run, std::int64_t epoch) {
  if (config.eval_every_epochs == 0) return false;
  return is_regular_evaluation(config, epoch) || epoch + 1 == last_epoch(config, run.stages) ||
         run.step >= last_step(config, plan, run);
}

bool is_regular_evaluation(const TrainConfig& config, std::int64_t epoch) {
  return epoch >= config.eval_from_epoch && (epoch + 1) % config.eval_every_epochs == 0;
}

bool reaches(const Metric& metric, double value) {
  return metric.lower_is_better ? metric.value <= value : metric.value >= value;
}

bool has_reached(const TrainConfig::StopAt& target, const std::optional<Metric>& best) {
  return best && best->name == target.metric && reaches(*best, target.value);
}

bool is_due_after(const TrainConfig::Checkpoint& options, std::int64_t epoch) {
  return options.every_epochs > 0 && (epoch + 1) % options.every_epochs == 0;
}

void note_metrics(const ScheduleConfig& config, const std::vector<Metric>& metrics,
                  std::optional<PlateauState>& plateau) {
  const auto decides = [&](const Metric& metric) { return config.metric.empty() || metric.name == config.metric; };
  const auto metric = std::find_if(metrics.begin(), metrics.end(), decides);
  if (!plateau || metric == metrics.end()) return;
  PlateauOptions options = plateau_options(config);
  options.lower_is_better = metric->lower_is_better;
  plateau = after_metric(options, *plateau, metric->value);
}

}  // namespace lockstep::train
