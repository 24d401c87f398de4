// SPDX-License-Identifier: Apache-2.0
// The size of a run before it starts: steps, learning rate, schedule. Pure functions.
#pragma once

#include <cstdint>

#include "lockstep/optim/schedule.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

struct Plan {
  std::int64_t total_batch = 0;  ///< samples per optimizer step, over all replicas
  std::int64_t batches_per_epoch = 0;
  std::int64_t steps_per_epoch = 0;  ///< optimizer steps
  std::int64_t total_steps = 0;
  double lr = 0;         ///< the learning rate after scaling
  double lr_factor = 1;  ///< the factor of the scaling
  Schedule schedule = Schedule::constant(0);
};

/// `batches_per_epoch` is that of one replica. lr_scaling counts `begun_replicas`, with which the run began; 0: it
/// still has them.
[[nodiscard]] Plan make_plan(const TrainConfig& config, std::int64_t batches_per_epoch, std::int64_t replicas,
                             std::int64_t begun_replicas = 0);

/// Throws: UsageError if there are too few samples for a batch.
void require_steps(const Plan& plan, const TrainConfig& config, std::int64_t samples);

}  // namespace lockstep::train
