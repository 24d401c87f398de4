// SPDX-License-Identifier: Apache-2.0
// Batch norm + (dropout) + ReLU + (2x2 max pooling) as one autograd node.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include "lockstep/nn/batch_norm.h"

namespace lockstep::nn::detail {

struct NormAct {
  double dropout = 0;  ///< probability that a value becomes zero
  bool pool = false;
};

/// True if fused_norm_act() accepts this input. Shapes: input [N, C, H, W].
[[nodiscard]] bool can_fuse_norm_act(const at::Tensor& input, const BatchNormCall& call, const NormAct& what);

/// Normalizes with the statistics of the batch. `momentum`: the batch's weight in the running statistics. `residual`:
/// added before ReLU, with the input's layout and type, or undefined; it cannot be combined with dropout or pooling.
[[nodiscard]] at::Tensor fused_norm_act(const at::Tensor& input, const BatchNormCall& call, double momentum,
                                        const NormAct& what, const at::Tensor& residual = {});

/// Counts the batch, and returns the weight of its statistics in the running statistics. Without a momentum, the
/// running statistics are the mean over all batches.
double count_batch(const BatchNormCall& call);

}  // namespace lockstep::nn::detail
