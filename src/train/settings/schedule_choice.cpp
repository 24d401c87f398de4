// SPDX-License-Identifier: Apache-2.0
#include "train/settings/schedule_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

std::int64_t steps_of(double epochs, const RunLength& run) {
  return std::llround(epochs * static_cast<double>(run.steps_per_epoch));
}

std::int64_t warmup_of(const ScheduleConfig& config, const RunLength& run) {
  return config.warmup_steps > 0 ? config.warmup_steps : steps_of(config.warmup_epochs, run);
}

Schedule one_cycle(const ScheduleConfig& config, const RunLength& run) {
  return Schedule::one_cycle({.max_lr = run.lr,
                              .total_steps = std::max<std::int64_t>(run.total_steps, 2),
                              .pct_start = config.pct_start,
                              .div_factor = config.div_factor,
                              .final_div_factor = config.final_div_factor,
                              .linear = config.anneal_strategy == "linear",
                              .three_phase = config.three_phase});
}

Schedule flat_cosine(const ScheduleConfig& config, const RunLength& run) {
  return Schedule::flat_cosine({.lr = run.lr,
                                .warmup_steps = warmup_of(config, run),
                                .flat_until = std::max(steps_of(config.flat_epochs, run), warmup_of(config, run)),
                                .total_steps = run.total_steps,
                                .final_steps = steps_of(config.no_aug_epochs, run),
                                .gamma = config.gamma});
}

Schedule multi_step(const ScheduleConfig& config, const RunLength& run) {
  MultiStepOptions options{.lr = run.lr, .gamma = config.gamma};
  for (const double epoch : config.milestone_epochs()) options.milestones.push_back(steps_of(epoch, run));
  return Schedule::multi_step(std::move(options));
}

/// Returns `schedule`, shifted so that its steps count from the start of the run, with or without warm-up.
Schedule from_step(std::int64_t first, const Schedule& schedule) {
  return Schedule([first, schedule](std::int64_t step) { return schedule.lr(step + first); });
}

Schedule after_warmup(const ScheduleConfig& config, const RunLength& run) {
  const std::int64_t warmup = warmup_of(config, run);
  const std::int64_t left = run.total_steps - warmup;
  if (config.type == "cosine") return Schedule::cosine({.lr = run.lr, .steps = left, .min_lr = config.min_lr});
  if (config.type == "polynomial") {
    return Schedule::polynomial({.lr = run.lr, .steps = left, .power = config.power, .min_lr = config.min_lr});
  }
  if (config.type == "multi_step") return from_step(warmup, multi_step(config, run));
  if (config.type == "step") {
    const std::int64_t size = std::max<std::int64_t>(steps_of(config.step_epochs, run), 1);
    return from_step(warmup, Schedule::step({.lr = run.lr, .step_size = size, .gamma = config.gamma}));
  }
  return Schedule::constant(run.lr);
}

std::string name_of(const ScheduleConfig& config) {
  if (config.type == "none") return "constant";
  if (config.type == "step") return fmt::format("x {} every {} epochs", config.gamma, config.step_epochs);
  if (config.type == "multi_step") {
    return fmt::format("x {} at epochs {}", config.gamma, text::join(config.milestones));
  }
  if (config.type == "plateau") {
    const std::int64_t bad = config.patience + 1;
    return fmt::format("x {} after {} {} without improvement in {}", config.factor, bad,
                       bad == 1 ? "evaluation" : "evaluations", config.metric.empty() ? "metric" : config.metric);
  }
  std::string words = config.type;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

}  // namespace

Schedule make_schedule(const ScheduleConfig& config, const RunLength& run) {
  const std::int64_t warmup = warmup_of(config, run);
  if (config.type == "one_cycle") return one_cycle(config, run);
  if (config.type == "flat_cosine") return flat_cosine(config, run);
  if (config.type == "noam") {
    return Schedule::noam(
        {.factor = run.lr, .model_size = config.model_size, .warmup_steps = std::max<std::int64_t>(warmup, 1)});
  }
  return Schedule::linear_warmup({.lr = run.lr, .steps = warmup}).then(warmup, after_warmup(config, run));
}

PlateauOptions plateau_options(const ScheduleConfig& config) {
  return {.factor = config.factor,
          .patience = config.patience,
          .threshold = config.threshold,
          .relative = config.threshold_mode == "rel",
          .cooldown = config.cooldown,
          .min_lr = config.min_lr};
}

std::string schedule_text(const ScheduleConfig& config) {
  if (config.warmup_steps > 0) return fmt::format("{} steps of warm-up, then {}", config.warmup_steps, name_of(config));
  if (config.warmup_epochs <= 0) return name_of(config);
  return fmt::format("{} epochs of warm-up, then {}", config.warmup_epochs, name_of(config));
}

bool depends_on_length(const std::string& type) {
  return type == "cosine" || type == "polynomial" || type == "one_cycle" || type == "flat_cosine";
}

}  // namespace lockstep::train
