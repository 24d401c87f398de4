// SPDX-License-Identifier: Apache-2.0
// The schedule that the settings describe. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/optim/plateau.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/train/schedule_config.h"

namespace lockstep::train {

/// What a schedule depends on besides its settings.
struct RunLength {
  double lr = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
};

/// With schedule.type plateau: the learning rate before the metric has told anything.
[[nodiscard]] Schedule make_schedule(const ScheduleConfig& config, const RunLength& run);

/// Direction left out: it is the metric's.
[[nodiscard]] PlateauOptions plateau_options(const ScheduleConfig& config);

/// "5 epochs of warm-up, then cosine".
[[nodiscard]] std::string schedule_text(const ScheduleConfig& config);

/// Whether the learning rate of a step depends on the length of the run. `type`: as schedule.type.
[[nodiscard]] bool depends_on_length(const std::string& type);

}  // namespace lockstep::train
