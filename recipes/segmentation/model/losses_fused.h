// SPDX-License-Identifier: Apache-2.0
// Between libtorch's tensors and the kernel of losses(): all maps' terms of a batch at once.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "segmentation/model/losses_kernel.h"

namespace lockstep::segmentation {

/// What the terms are made of.
struct FusedMaps {
  at::Tensor target;                           ///< uint8 [B, planes, H, W], on the CPU; labels are classes or 255
  std::array<std::int64_t, kLossMaps> places;  ///< the maps' planes; -1: the term is left out
  double smoothing = 0;
};

/// The terms without their weights, float32 [kLossMaps]; 0 where one is left out.
/// Shapes: logits float32 or bfloat16 [B, C, h, w], on the CPU.
/// Throws: UsageError for a second derivative.
[[nodiscard]] at::Tensor fused_losses(const at::Tensor& logits, const FusedMaps& maps);

}  // namespace lockstep::segmentation
