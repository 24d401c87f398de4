// SPDX-License-Identifier: Apache-2.0
// The length of a run and its learning rate, before it starts. Pure functions.
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
  double lr_factor = 1;  ///< factor applied by lr_scaling
  Schedule schedule = Schedule::constant(0);
};

/// Creates the plan. `batches_per_epoch` counts the batches of one replica. lr_scaling uses `begun_replicas`, the
/// number that the run started with; 0 means `replicas`.
[[nodiscard]] Plan make_plan(const TrainConfig& config, std::int64_t batches_per_epoch, std::int64_t replicas,
                             std::int64_t begun_replicas = 0);

/// Returns the number of full batches of one replica per epoch, with drop_last. The samples are dealt to the replicas
/// in equal parts, the last one filled up by repeating samples. `batch_size` counts samples of one replica.
[[nodiscard]] std::int64_t full_batches(std::int64_t samples, std::int64_t replicas, std::int64_t batch_size);

/// Throws: UsageError if there are not enough samples for one batch.
void require_steps(const Plan& plan, const TrainConfig& config, std::int64_t samples);

}  // namespace lockstep::train
