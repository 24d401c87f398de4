// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr double kPi = 3.14159265358979323846;

void require(bool valid, const char* what, double value, const char* needed) {
  if (!valid) throw UsageError(fmt::format("{} is {}; it must be {}", what, value, needed));
}

/// Returns the completed share of `steps`, at most 1.
double done(std::int64_t step, std::int64_t steps) {
  const auto length = static_cast<double>(std::max<std::int64_t>(steps, 1));
  return std::min(static_cast<double>(step) / length, 1.0);
}

/// Returns a value that goes from `first` to `last` as `part` goes from 0 to 1.
double half_cosine(double first, double last, double part) {
  return last + (first - last) * 0.5 * (1 + std::cos(kPi * part));
}

/// One phase of a cycle: its last step, and the rates at its ends.
struct Phase {
  double end = 0;
  double first = 0;
  double last = 0;
};

std::vector<Phase> phases_of(const OneCycleOptions& options) {
  const auto steps = static_cast<double>(options.total_steps);
  const double first = options.max_lr / options.div_factor;
  const double last = first / options.final_div_factor;
  const double top = options.pct_start * steps - 1;
  if (!options.three_phase) return {{top, first, options.max_lr}, {steps - 1, options.max_lr, last}};
  return {{top, first, options.max_lr},
          {2 * options.pct_start * steps - 2, options.max_lr, first},
          {steps - 1, first, last}};
}

double rate_in(const std::vector<Phase>& phases, double step, bool linear) {
  double begin = 0;
  for (const Phase& phase : phases) {
    if (step <= phase.end) {
      // The first phase may end at or before its first step.
      const double part = phase.end > begin ? (step - begin) / (phase.end - begin) : 1;
      return linear ? (phase.last - phase.first) * part + phase.first : half_cosine(phase.first, phase.last, part);
    }
    begin = phase.end;
  }
  return phases.back().last;
}

}  // namespace

Schedule Schedule::then(std::int64_t at, const Schedule& next) const {
  require(at >= 0, "the step at which the next schedule starts", static_cast<double>(at), "0 or more");
  return Schedule([at, before = function_, after = next.function_](std::int64_t step) {
    return step < at ? before(step) : after(step - at);
  });
}

Schedule Schedule::constant(double lr) {
  return Schedule([lr](std::int64_t) { return lr; });
}

Schedule Schedule::linear_warmup(const WarmupOptions& options) {
  return Schedule([options](std::int64_t step) {
    if (step >= options.steps) return options.lr;
    return options.lr * static_cast<double>(step + 1) / static_cast<double>(options.steps);
  });
}

Schedule Schedule::step(const StepOptions& options) {
  require(options.step_size >= 1, "step_size", static_cast<double>(options.step_size), "at least 1");
  return Schedule([options](std::int64_t step) {
    return options.lr * std::pow(options.gamma, static_cast<double>(step / options.step_size));
  });
}

Schedule Schedule::multi_step(MultiStepOptions options) {
  std::sort(options.milestones.begin(), options.milestones.end());
  return Schedule([options = std::move(options)](std::int64_t step) {
    const auto passed = std::upper_bound(options.milestones.begin(), options.milestones.end(), step);
    return options.lr * std::pow(options.gamma, static_cast<double>(passed - options.milestones.begin()));
  });
}

Schedule Schedule::cosine(const CosineOptions& options) {
  return Schedule([options](std::int64_t step) {
    return half_cosine(options.lr, std::min(options.min_lr, options.lr), done(step, options.steps));
  });
}

Schedule Schedule::polynomial(const PolynomialOptions& options) {
  require(options.power > 0, "a polynomial schedule's power", options.power, "above 0");
  return Schedule([options](std::int64_t step) {
    const double last = std::min(options.min_lr, options.lr);
    return last + (options.lr - last) * std::pow(1 - done(step, options.steps), options.power);
  });
}

Schedule Schedule::one_cycle(const OneCycleOptions& options) {
  require(options.total_steps >= 2, "a cycle's total_steps", static_cast<double>(options.total_steps), "at least 2");
  require(options.pct_start > 0 && options.pct_start < 1, "pct_start", options.pct_start, "between 0 and 1");
  require(!options.three_phase || options.pct_start <= 0.5, "pct_start", options.pct_start,
          "at most 0.5 with three phases");
  require(options.div_factor > 0, "div_factor", options.div_factor, "above 0");
  require(options.final_div_factor > 0, "final_div_factor", options.final_div_factor, "above 0");
  return Schedule([phases = phases_of(options), linear = options.linear](std::int64_t step) {
    return rate_in(phases, static_cast<double>(step), linear);
  });
}

Schedule Schedule::noam(const NoamOptions& options) {
  require(options.model_size >= 1, "model_size", static_cast<double>(options.model_size), "at least 1");
  require(options.warmup_steps >= 1, "noam's warm-up in steps", static_cast<double>(options.warmup_steps),
          "at least 1");
  return Schedule([options](std::int64_t step) {
    const auto n = static_cast<double>(step + 1);
    const double rising = n * std::pow(static_cast<double>(options.warmup_steps), -1.5);
    const double size = std::pow(static_cast<double>(options.model_size), -0.5);
    return options.factor * size * std::min(std::pow(n, -0.5), rising);
  });
}

Schedule Schedule::flat_cosine(const FlatCosineOptions& options) {
  const std::int64_t least =
      std::min({options.warmup_steps, options.flat_until, options.total_steps, options.final_steps});
  require(least >= 0, "a step count of flat_cosine", static_cast<double>(least), "0 or more");
  return Schedule([options](std::int64_t step) {
    if (step <= options.warmup_steps && options.warmup_steps > 0) {
      const double part = static_cast<double>(step) / static_cast<double>(options.warmup_steps);
      return options.lr * part * part;
    }
    if (step <= options.flat_until) return options.lr;
    const double last = options.lr * options.gamma;
    const std::int64_t end = options.total_steps - options.final_steps;
    if (step >= end) return last;
    return half_cosine(options.lr, last, done(step - options.flat_until, end - options.flat_until));
  });
}

}  // namespace lockstep
