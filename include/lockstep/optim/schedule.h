// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of the step, so it has no state to save. For a schedule that follows a run's
// metrics, see plateau.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#pragma GCC visibility push(default)

namespace lockstep {

/// The rate is lr, multiplied by gamma after each `step_size` steps.
struct StepOptions {
  double lr = 1e-3;            ///< the first rate
  std::int64_t step_size = 1;  ///< steps between reductions
  double gamma = 0.1;          ///< factor of each reduction
};

/// The rate is lr, multiplied by gamma at each of `milestones`.
struct MultiStepOptions {
  double lr = 1e-3;                           ///< the first rate
  std::vector<std::int64_t> milestones = {};  ///< steps, in any order; a step that is listed twice counts twice
  double gamma = 0.1;                         ///< factor of each reduction
};

/// The rate is lr * (step + 1) / steps during the warm-up, then lr.
struct WarmupOptions {
  double lr = 1e-3;        ///< the rate after the warm-up
  std::int64_t steps = 0;  ///< length of the warm-up; 0: none
};

/// The rate follows half a cosine from lr to min_lr, then stays at min_lr.
struct CosineOptions {
  double lr = 1e-3;        ///< the first rate
  std::int64_t steps = 0;  ///< length of the schedule; less than 1 counts as 1
  double min_lr = 0;       ///< the last rate; a value above lr counts as lr
};

/// The rate is min_lr + (lr - min_lr) * (1 - step / steps) ^ power, then min_lr.
struct PolynomialOptions {
  double lr = 1e-3;        ///< the first rate
  std::int64_t steps = 0;  ///< length of the schedule; less than 1 counts as 1
  double power = 1;        ///< exponent; 1: a straight line
  double min_lr = 0;       ///< the last rate; a value above lr counts as lr
};

/// The rate rises from max_lr / div_factor to max_lr over a fraction pct_start of the steps, then falls to the first
/// rate divided by final_div_factor.
struct OneCycleOptions {
  double max_lr = 1e-3;           ///< the highest rate
  std::int64_t total_steps = 0;   ///< steps of the cycle, at least 2
  double pct_start = 0.3;         ///< fraction of the steps during which the rate rises
  double div_factor = 25;         ///< the highest rate divided by the first one
  double final_div_factor = 1e4;  ///< the first rate divided by the last one
  bool linear = false;            ///< uses straight lines instead of half cosines
  bool three_phase = false;  ///< falls to the first rate in as many steps as it rose, and from there to the last rate
};

/// The rate is factor / sqrt(model_size) * min(1 / sqrt(n), n / warmup_steps ^ 1.5), with n = step + 1.
struct NoamOptions {
  double factor = 1;                 ///< factor applied to all rates
  std::int64_t model_size = 512;     ///< the model's width
  std::int64_t warmup_steps = 4000;  ///< steps in which the rate rises
};

/// The rate is lr * (step / warmup_steps)^2 during the warm-up, then lr. It then follows half a cosine to lr * gamma,
/// its value in the last `final_steps` steps.
struct FlatCosineOptions {
  double lr = 1e-3;               ///< the rate between warm-up and cosine
  std::int64_t warmup_steps = 0;  ///< length of the warm-up, which starts at a rate of 0; 0: no warm-up
  std::int64_t flat_until = 0;    ///< the step at which the cosine begins
  std::int64_t total_steps = 0;   ///< steps of the whole schedule
  std::int64_t final_steps = 0;   ///< steps at the end that keep the last rate
  double gamma = 0.5;             ///< the last rate, as a fraction of lr
};

/// The learning rate of each optimizer step. Steps are counted from 0; then() chains schedules.
///
/// Source:  torch.optim.lr_scheduler, with the same values. The warm-up is from the original captcha program,
///          flat_cosine from DEIM, noam from the Transformer's paper.
/// Example: const Schedule schedule = Schedule::linear_warmup({.lr = 0.1, .steps = 500})
///                                        .then(500, Schedule::cosine({.lr = 0.1, .steps = 9500}));
///          optimizer.set_lr(schedule.lr(step)); before optimizer.step().
class Schedule {
 public:
  /// Creates a schedule from any function of the step.
  explicit Schedule(std::function<double(std::int64_t step)> function) : function_(std::move(function)) {}

  /// Returns the learning rate at `step`, counted from 0.
  [[nodiscard]] double lr(std::int64_t step) const { return function_(step); }

  /// Returns this schedule for the steps below `at`, then `next`, whose step 0 is step `at`. Throws: UsageError unless
  /// at >= 0.
  [[nodiscard]] Schedule then(std::int64_t at, const Schedule& next) const;

  /// Returns a schedule with the same rate at every step.
  [[nodiscard]] static Schedule constant(double lr);
  /// Returns a linear warm-up (WarmupOptions).
  [[nodiscard]] static Schedule linear_warmup(const WarmupOptions& options);
  /// Returns the schedule of StepOptions. Throws: UsageError unless step_size >= 1.
  [[nodiscard]] static Schedule step(const StepOptions& options);
  /// Returns the schedule of MultiStepOptions.
  [[nodiscard]] static Schedule multi_step(MultiStepOptions options);
  /// Returns half a cosine (CosineOptions).
  [[nodiscard]] static Schedule cosine(const CosineOptions& options);
  /// Returns the schedule of PolynomialOptions. Throws: UsageError unless power > 0.
  [[nodiscard]] static Schedule polynomial(const PolynomialOptions& options);
  /// Returns a cycle (OneCycleOptions), which does not change the momentum. Throws: UsageError unless total_steps >= 2,
  /// 0 < pct_start < 1 (at most 0.5 with three phases), and both factors are above 0.
  [[nodiscard]] static Schedule one_cycle(const OneCycleOptions& options);
  /// Returns the schedule of NoamOptions. Throws: UsageError unless model_size >= 1 and warmup_steps >= 1.
  [[nodiscard]] static Schedule noam(const NoamOptions& options);
  /// Returns the schedule of FlatCosineOptions. Throws: UsageError for negative numbers of steps.
  [[nodiscard]] static Schedule flat_cosine(const FlatCosineOptions& options);

 private:
  std::function<double(std::int64_t)> function_;
};

}  // namespace lockstep

#pragma GCC visibility pop
