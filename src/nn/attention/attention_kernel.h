// SPDX-License-Identifier: Apache-2.0
// Computes attention for one item and head in float32, a few queries at a time. Does not use libtorch.
#pragma once

#include <cstdint>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// Consecutive rows of `depth` elements, `row` elements apart.
struct AttentionRows {
  void* data = nullptr;
  std::int64_t row = 0;
};

/// One head of one item.
struct AttentionHead {
  ElementType type = ElementType::kFloat;  ///< element type of all rows
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t depth = 0;  ///< a multiple of 8
  float scale = 1;
  AttentionRows query;
  AttentionRows key;
  AttentionRows value;
  const float* bias = nullptr;           ///< [queries, keys], or null
  std::int64_t bias_row = 0;             ///< distance from one query to the next, in elements
  const std::uint8_t* hidden = nullptr;  ///< a byte for each score, or null
  std::int64_t hidden_row = 0;           ///< distance from one query to the next, in bytes
  float* logs = nullptr;                 ///< [queries]: logarithms of the sums of exponentials, written by forward
};

void attention_forward(const AttentionHead& head, const AttentionRows& out);

/// The buffers for the gradients.
struct AttentionGradients {
  AttentionRows query;
  AttentionRows key;
  AttentionRows value;
  float* bias = nullptr;  ///< [queries, keys], or null
};
void attention_backward(const AttentionHead& head, const AttentionRows& grad, const AttentionGradients& into);

}  // namespace lockstep::nn
