// SPDX-License-Identifier: Apache-2.0
// The training forward and backward of batch norm over several replicas' batches, made of libtorch's own fast kernels.
#pragma once

#include <memory>

#include "lockstep/nn/batch_norm.h"

namespace lockstep::nn::detail {

/// `momentum`: the part of the new statistics that goes into the running ones.
[[nodiscard]] at::Tensor synced_batch_norm(const at::Tensor& input, const BatchNormCall& call, double momentum,
                                           const std::shared_ptr<StatisticsSync>& sync);

}  // namespace lockstep::nn::detail
