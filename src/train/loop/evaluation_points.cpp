// SPDX-License-Identifier: Apache-2.0
#include "train/loop/evaluation_points.h"

#include <algorithm>

#include "train/plan/decisions.h"
#include "train/plan/stages.h"

namespace lockstep::train {
namespace {

EvaluateOptions evaluate_options(const TrainConfig& config) {
  return {.batch_size = config.batch_size,
          .workers = config.workers,
          .prefetch_factor = config.prefetch_factor,
          .loader_timeout_s = config.loader_timeout_s,
          .skip_bad_samples = config.bad_samples == "skip",
          .amp = config.amp,
          .channels_last = config.channels_last,
          .pin_memory = config.pin_memory,
          .replicas = static_cast<int>(config.replicas)};
}

/// Returns the evaluation loss if the task measures it, otherwise the epoch's training loss.
std::optional<double> loss_of(const std::vector<Metric>& metrics, std::optional<double> training_loss) {
  const auto measured = std::ranges::find(metrics, "loss", &Metric::name);
  return measured == metrics.end() ? training_loss : std::optional(measured->value);
}

}  // namespace

EvaluationPoints::EvaluationPoints(const RunPlan& plan, Learner& learner, RunSinks& sinks, const RunState& run)
    : plan_(plan), learner_(learner), sinks_(sinks), reached_target_(has_reached(plan.config.stop_at, run.best)) {}

bool EvaluationPoints::is_due(const RunState& run, std::int64_t epoch) const {
  return plan_.test_set != nullptr && is_evaluation_epoch(plan_.config, plan_.sums, run, epoch);
}

std::vector<std::string> EvaluationPoints::evaluate(RunState& run, std::int64_t epoch, std::optional<double> loss) {
  EvaluateOptions options = evaluate_options(plan_.config);
  options.progress = [this](auto done, auto total) { sinks_.evaluating({.done = done, .total = total}); };
  under_way_ = true;
  last_ = learner_.evaluate(plan_.test_set, options);
  under_way_ = false;
  for (const Metric& metric : last_.metrics) {
    if (metric.name == plan_.config.stop_at.metric && reaches(metric, plan_.config.stop_at.value))
      reached_target_ = true;
  }
  sinks_.evaluation({.epoch = epoch, .step = run.step, .metrics = last_.metrics, .tally = last_.tally});
  // An evaluation that takes place only because the run ends here does not count: a longer run would not have it.
  const bool whole = run.batch == plan_.sums.batches_per_epoch;
  const bool counts = whole && is_regular_evaluation(plan_.config, epoch);
  std::vector<std::string> names = note_best(run, loss_of(last_.metrics, loss), counts);
  if (counts) note_metrics(plan_.config.schedule, last_.metrics, run.plateau);
  return names;
}

void EvaluationPoints::make_up() {
  if (last_.samples > 0 || plan_.test_set == nullptr || plan_.config.eval_every_epochs == 0) return;
  under_way_ = true;
  last_ = learner_.evaluate(plan_.test_set, evaluate_options(plan_.config));
  under_way_ = false;
}

/// Compares by stop_at.metric if it is set, otherwise by the task's first metric.
std::vector<std::string> EvaluationPoints::note_best(RunState& run, std::optional<double> loss, bool counts) {
  const TrainConfig& config = plan_.config;
  for (const Metric& metric : last_.metrics) {
    if (!config.stop_at.metric.empty() && metric.name != config.stop_at.metric) continue;
    const bool best = replaces_best(run, metric, loss);
    auto names = note_evaluation(
        config.stages, run.stages,
        {.metric = metric, .step = run.step, .best = best, .counts = counts, .gains = is_better(metric, run.best)});
    if (!best) return names;
    run.best = metric;
    run.best_step = run.step;
    run.best_loss = loss;
    return names;
  }
  return {};
}

}  // namespace lockstep::train
