// SPDX-License-Identifier: Apache-2.0
// The learning rate as a pure function of the step: nothing to save, nothing to drift.
#pragma once

#include <cstdint>

namespace lockstep {

enum class ScheduleType { kNone, kCosine };

/// Linear warm-up, then constant or cosine, per step.
///
/// Units: steps are optimizer steps, counted from 0 over the whole run.
/// Source: the captcha origin: lr * (s + 1) / W for s < W, then half a cosine to min_lr at total_steps.
/// Example: optimizer.set_lr(schedule.lr(step)); before optimizer.step().
struct Schedule {
  ScheduleType type = ScheduleType::kNone;
  double base_lr = 1e-3;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< where the cosine ends; beyond it the rate stays at min_lr
  double min_lr = 1e-6;          ///< not below base_lr: then base_lr

  [[nodiscard]] double lr(std::int64_t step) const;
};

}  // namespace lockstep
