// SPDX-License-Identifier: Apache-2.0
// Creates the schedule described by the settings. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/optim/plateau.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/train/schedule_config.h"

namespace lockstep::train {

/// The values that a schedule depends on in addition to its settings.
struct RunLength {
  double lr = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
};

/// Returns the schedule that the settings describe. For schedule.type plateau, it gives the rate that applies before
/// the first metric.
[[nodiscard]] Schedule make_schedule(const ScheduleConfig& config, const RunLength& run);

/// Returns the options for plateau, without lower_is_better, which depends on the metric.
[[nodiscard]] PlateauOptions plateau_options(const ScheduleConfig& config);

/// Returns "5 epochs of warm-up, then cosine".
[[nodiscard]] std::string schedule_text(const ScheduleConfig& config);

/// Returns true if the learning rate of a step depends on the length of the run. `type` is a schedule.type.
[[nodiscard]] bool depends_on_length(const std::string& type);

}  // namespace lockstep::train
