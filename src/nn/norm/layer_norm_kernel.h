// SPDX-License-Identifier: Apache-2.0
// Layer norm over dense rows: each row is read from memory once, and then from the cache. Does not use libtorch.
#pragma once

#include <cstdint>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// The arrays of forward and backward: x is [rows, width].
struct LayerNormPass {
  ElementType type;
  std::int64_t width = 0;
  const void* x = nullptr;
  const float* weight = nullptr;  ///< [width]
  const float* bias = nullptr;    ///< [width]
  float* mean = nullptr;          ///< [rows]
  float* inverse = nullptr;       ///< [rows]: 1 / standard deviation
};

/// Rows [begin, end) of x.
struct LayerNormRows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
void layer_norm_forward(const LayerNormPass& pass, LayerNormRows rows, double eps, void* out);

/// Computes the gradient of these rows of x, and the sums over them of grad * x^ (for the weight) and of grad (for the
/// bias), with x^ = (x - mean) * inverse. `sums`: two rows of padded(width).
void layer_norm_backward(const LayerNormPass& pass, LayerNormRows rows, const void* grad, void* grad_in, float* sums);

}  // namespace lockstep::nn
