// SPDX-License-Identifier: Apache-2.0
// The precision of computation: the settings `amp` and `tf32`, libtorch's switches for them, and their line in the
// banner.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>

#include "lockstep/train/train_config.h"

namespace lockstep::train {

/// Throws: UsageError for fp16 if `device` is the CPU.
void require_amp(const TrainConfig& config, const c10::Device& device);

/// Sets libtorch's two TF32 switches according to `config.tf32`; "default" leaves them alone. No effect on a CPU.
void use_tf32(const TrainConfig& config);

/// Returns "bf16 autocast, channels last"; on CUDA also the precision of float32.
[[nodiscard]] std::string precision_text(const TrainConfig& config, const c10::Device& device);

/// Returns a note for a run on a GPU with CUDA_LAUNCH_BLOCKING=1; otherwise empty.
[[nodiscard]] std::string launch_blocking_text(const c10::Device& device);

}  // namespace lockstep::train
