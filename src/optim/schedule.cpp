// SPDX-License-Identifier: Apache-2.0
// Warm-up and cosine.
#include "lockstep/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

double Schedule::lr(std::int64_t step) const {
  if (step < warmup_steps) return base_lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (type == ScheduleType::kNone) return base_lr;
  constexpr double kPi = 3.14159265358979323846;
  const auto length = static_cast<double>(std::max<std::int64_t>(total_steps - warmup_steps, 1));
  const double done = std::min(static_cast<double>(step - warmup_steps) / length, 1.0);
  const double floor = std::min(min_lr, base_lr);
  return floor + (base_lr - floor) * 0.5 * (1 + std::cos(kPi * done));
}

}  // namespace lockstep
