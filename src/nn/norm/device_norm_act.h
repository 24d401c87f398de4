// SPDX-License-Identifier: Apache-2.0
// Batch norm + ReLU + (2x2 max pooling) as one autograd node, with the kernels of norm_act.cuh: a GPU passes over the
// input twice in forward and twice in backward, and only the input is saved.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/tensor/device_kernels.h"
#include "nn/norm/fused_norm_act.h"

namespace lockstep::nn::detail {

/// Returns the kernels for the input's GPU. Null if the input is not on a GPU, there is no compiler, or the kernels do
/// not support this layer. Shapes: input [N, C, H, W]. Blocks: for a few seconds while the kernels are being compiled.
[[nodiscard]] tensor::DeviceKernels* norm_act_kernels(const at::Tensor& input, const BatchNormCall& call,
                                                      const NormAct& what);

/// The tensors that are added before and after the batch norm.
struct NormActAdded {
  at::Tensor residual = {};    ///< added before ReLU, in the input's layout and type, or undefined; never with pooling
  at::Tensor input_bias = {};  ///< bias of the previous convolution, not in the input yet, or undefined. Shapes: [C]
};

/// Normalizes with the statistics of the batch, as fused_norm_act() does. The input bias changes only the running mean,
/// and its gradient is zero. Stream: the current one. Blocks: no.
[[nodiscard]] at::Tensor device_norm_act(tensor::DeviceKernels& kernels, const at::Tensor& input,
                                         const BatchNormCall& call, const NormAct& what, const NormActAdded& added);

}  // namespace lockstep::nn::detail
