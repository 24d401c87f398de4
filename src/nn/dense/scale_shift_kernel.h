// SPDX-License-Identifier: Apache-2.0
// scale * x + shift over a span of memory, and its gradients. Does not use libtorch.
#pragma once

#include <cstdint>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// Elements from `begin` to `end` of the input and the output.
struct ScaleShiftSpan {
  ElementType type = ElementType::kFloat;
  const void* x = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

void scale_shift_forward(const ScaleShiftSpan& span, float scale, float shift, void* out);

/// The sums of grad * x and of grad.
struct ScaleShiftSums {
  float times_x = 0;
  float plain = 0;
};
/// Writes scale * grad to `grad_in` unless it is null, and returns the sums.
ScaleShiftSums scale_shift_backward(const ScaleShiftSpan& span, float scale, const void* grad, void* grad_in);

}  // namespace lockstep::nn
