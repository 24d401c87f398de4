// SPDX-License-Identifier: Apache-2.0
// Prepares a network for training, and a batch for a step.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <torch/nn/module.h>

#include <cstdint>

#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Stores convolution weights in channels-last, a layout in which bf16 convolutions on the CPU are several times
/// faster. Call it before an optimizer or DistributedDataParallel takes the parameters.
void use_channels_last(torch::nn::Module& net);

/// Returns the device of the network's first parameter; the CPU for a network without parameters.
[[nodiscard]] c10::Device device_of(const torch::nn::Module& net);

/// Moves the batch's data and target to `device`; the task moves `extra`. Copies from page-locked memory are
/// asynchronous.
void move_to(Batch& batch, const c10::Device& device);

/// Returns images with channels-last strides, so that even the first layer computes in that layout. Images with one
/// channel have the same memory in both layouts, and libtorch takes the layout from the strides.
/// Shapes: NCHW; any other tensor is returned unchanged.
[[nodiscard]] at::Tensor to_channels_last(const at::Tensor& images);

/// Moves the batch to `device` and, if `channels_last` is true, converts images to channels-last.
void prepare_batch(Batch& batch, const c10::Device& device, bool channels_last);

/// Returns the number of elements of all parameters.
[[nodiscard]] std::int64_t parameter_count(const torch::nn::Module& net);

}  // namespace lockstep

#pragma GCC visibility pop
