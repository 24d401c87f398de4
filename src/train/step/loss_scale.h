// SPDX-License-Identifier: Apache-2.0
// The Trainer's additions to GradScaler: agreement between ranks, sharded gradients, and a lower limit for the scale.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Returns the scaler's options from `config`, with a `combine` that takes the maximum of found_inf over all ranks.
[[nodiscard]] GradScalerOptions scaler_options(const Job& job, const TrainConfig& config);

/// Returns the gradients that this rank's update uses: all of them, or only its parts if `optimizer` is a
/// ZeroRedundancyOptimizer, whose other parts may be undefined. They are views: writing changes the gradients.
[[nodiscard]] std::vector<at::Tensor> own_gradients(const Optimizer& optimizer);

/// Throws: DataError if the scale is so small that no scaled gradient could be nonzero in float16.
void require_useful_scale(double scale, std::int64_t step);

}  // namespace lockstep::train
