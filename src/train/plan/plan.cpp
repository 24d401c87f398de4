// SPDX-License-Identifier: Apache-2.0
#include "train/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "train/settings/schedule_choice.h"

namespace lockstep::train {
namespace {

// The total batch at which `lr_scaling: batch` leaves the learning rate unchanged (Goyal et al., 2017).
constexpr double kReferenceBatch = 256;

double lr_factor(const std::string& scaling, std::int64_t total_batch, std::int64_t replicas) {
  if (scaling == "replicas") return static_cast<double>(replicas);
  if (scaling == "batch") return static_cast<double>(total_batch) / kReferenceBatch;
  return 1;
}

}  // namespace

Plan make_plan(const TrainConfig& config, std::int64_t batches_per_epoch, std::int64_t replicas,
               std::int64_t begun_replicas) {
  Plan plan;
  plan.total_batch = config.batch_size * config.accumulate_steps * replicas;
  plan.batches_per_epoch = batches_per_epoch;
  plan.steps_per_epoch = (batches_per_epoch + config.accumulate_steps - 1) / config.accumulate_steps;
  plan.total_steps = plan.steps_per_epoch * config.epochs;
  if (config.max_steps > 0) plan.total_steps = std::min(plan.total_steps, config.max_steps);
  plan.lr_factor =
      lr_factor(config.optimizer.lr_scaling, plan.total_batch, begun_replicas > 0 ? begun_replicas : replicas);
  plan.lr = config.optimizer.lr * plan.lr_factor;
  plan.schedule = make_schedule(
      config.schedule, {.lr = plan.lr, .steps_per_epoch = plan.steps_per_epoch, .total_steps = plan.total_steps});
  return plan;
}

std::int64_t full_batches(std::int64_t samples, std::int64_t replicas, std::int64_t batch_size) {
  return (samples + replicas - 1) / replicas / batch_size;
}

void require_steps(const Plan& plan, const TrainConfig& config, std::int64_t samples) {
  if (plan.total_steps > 0) return;
  throw UsageError(fmt::format("{} samples do not fill a batch of {} on each of {} replicas", samples,
                               config.batch_size.value(), config.replicas),
                   "use a smaller batch_size, or drop_last=false");
}

}  // namespace lockstep::train
