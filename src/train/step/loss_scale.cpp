// SPDX-License-Identifier: Apache-2.0
#include "train/step/loss_scale.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/zero.h"

namespace lockstep::train {
namespace {

// The smallest positive number of float16.
constexpr double kSmallestHalf = 1.0 / (1 << 24);

/// Returns the elements of `grad` that belong to `part`, a part of the memory of `parameter`.
at::Tensor part_of(const at::Tensor& grad, const at::Tensor& parameter, const at::Tensor& part) {
  if (part.numel() == parameter.numel()) return grad;
  if (grad.strides() != parameter.strides())
    throw InternalError("a sharded gradient does not have its parameter's strides");
  const std::int64_t begin = part.storage_offset() - parameter.storage_offset();
  return grad.detach().as_strided({part.numel()}, {1}, grad.storage_offset() + begin);
}

}  // namespace

GradScalerOptions scaler_options(const Job& job, const TrainConfig& config) {
  const TrainConfig::GradScaler& chosen = config.grad_scaler;
  GradScalerOptions options{.init_scale = chosen.init_scale,
                            .growth_factor = chosen.growth_factor,
                            .backoff_factor = chosen.backoff_factor,
                            .growth_interval = chosen.growth_interval,
                            .enabled = config.scales_loss()};
  if (job.world_size() > 1) {
    options.combine = [job](const at::Tensor& found_inf) {
      job.group().all_reduce(found_inf, {.op = ReduceOp::kMax}).wait();
    };
  }
  return options;
}

std::vector<at::Tensor> own_gradients(const Optimizer& optimizer) {
  const auto* sharded = dynamic_cast<const ZeroRedundancyOptimizer*>(&optimizer);
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) {
    const at::Tensor& parameter = optimizer.parameters()[i].second;
    if (!parameter.grad().defined()) continue;
    const at::Tensor& part = sharded == nullptr ? parameter : sharded->local().parameters()[i].second;
    if (part.numel() > 0) gradients.push_back(part_of(parameter.grad(), parameter, part));
  }
  return gradients;
}

void require_useful_scale(double scale, std::int64_t step) {
  if (scale >= kSmallestHalf) return;
  throw DataError(
      fmt::format("gradients are not finite at any loss scale: the scale fell to {:.2g} at step {}", scale, step),
      "use a smaller optimizer.lr or a clip_norm, or check the samples and the loss");
}

}  // namespace lockstep::train
