// SPDX-License-Identifier: Apache-2.0
// Dropout, ReLU and bias + dropout + ReLU over dense memory. Does not use libtorch.
#pragma once

#include <cstdint>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// Elements [begin, end) of an array.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The elements that dropout keeps: a bit for each element in memory order, set if it is kept. Null means no dropout.
struct KeptBits {
  const std::uint8_t* bits = nullptr;  ///< bits, with at least 4 readable bytes after the last
  float scale = 1;                     ///< factor for the elements that are kept
};

/// Computes in * (kept ? scale : 0): NaN stays NaN. Backward is the same operation.
void dropout_pass(ElementType type, const void* in, void* out, Span span, const KeptBits& kept);

/// Computes max(0, in), and sets the bit of each element that is above 0 or NaN, through which the gradient passes. The
/// span begins at a multiple of 8; whole bytes are written.
void relu_pass(ElementType type, const void* in, void* out, std::uint8_t* bits, Span span);

/// Passes `grad` to the elements whose bit is set.
void relu_backward_pass(ElementType type, const void* grad, const std::uint8_t* bits, void* grad_in, Span span);

/// Rows [begin, end) of a matrix [rows, channels].
struct Rows {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t channels = 0;
};

/// Computes max(0, values + bias) * (kept ? scale : 0), in place. `bias`: float32, [channels].
void bias_relu_pass(ElementType type, void* values, const Rows& rows, const float* bias, const KeptBits& kept);

/// Computes the gradient before bias, dropout and ReLU from the gradient after them, and its sums by channel over the
/// rows. A result above 0 shows that dropout and ReLU passed the element, so nothing else needs to be stored.
struct BiasReluBackward {
  ElementType type;
  const void* out;
  const void* grad;
  void* grad_in;
  float scale;  ///< dropout's factor
};
void bias_relu_backward_pass(const BiasReluBackward& pass, const Rows& rows, float* sums_padded);

}  // namespace lockstep::nn
