// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions, channels-last, with the plans of direct.h. Does not use libtorch.
#pragma once

#include <cstdint>

#include "nn/conv/direct.h"
#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// One image. The plan's `in` and `out` are the channels, a multiple of 8.
struct DepthwiseImage {
  ElementType type = ElementType::kFloat;
  const void* x = nullptr;         ///< [from_pixels, channels]
  const float* weights = nullptr;  ///< [taps, channels]
  const float* bias = nullptr;     ///< [channels], or null
  void* y = nullptr;               ///< [to_pixels, channels]
};

void depthwise_forward(const DirectPlan& plan, const DepthwiseImage& image);

/// Sets `sums` [taps, channels] to one image's contribution to the gradient of the weights. `plan`: the forward plan.
void depthwise_weight_sums(const DirectPlan& plan, ElementType type, const void* x, const void* dy, float* sums);

}  // namespace lockstep::nn
