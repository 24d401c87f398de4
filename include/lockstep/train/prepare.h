// SPDX-License-Identifier: Apache-2.0
// What is done to a network before it trains, and to a batch before a step.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>

#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Lays the weights of convolutions out in channels-last, where the processor's bf16 convolutions are several times as
/// fast. Call before an optimizer or DistributedDataParallel takes the parameters.
void use_channels_last(torch::nn::Module& net);

/// `batch`'s data and target on `device`; anything in `extra` is the task's. From page-locked memory (pin_memory) the
/// copy goes on while the caller does.
void move_to(Batch& batch, const c10::Device& device);

/// Images with the strides of channels-last, so that the first layer already computes in it. One channel has the same
/// memory in both layouts, but only the strides tell libtorch which is meant.
/// Shapes: NCHW; any other tensor comes back as it is.
[[nodiscard]] at::Tensor to_channels_last(const at::Tensor& images);

/// Both, as a step wants its batch: on `device`, and with `channels_last` images in that layout.
void prepare_batch(Batch& batch, const c10::Device& device, bool channels_last);

/// Elements of all parameters.
[[nodiscard]] std::int64_t parameter_count(const torch::nn::Module& net);

}  // namespace lockstep

#pragma GCC visibility pop
