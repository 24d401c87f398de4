// SPDX-License-Identifier: Apache-2.0
// Attention of one item and head, a few queries at a time; it computes in float32. Free of libtorch.
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
  ElementType type = ElementType::kFloat;  ///< of all rows
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t depth = 0;  ///< a multiple of 8
  float scale = 1;
  AttentionRows query;
  AttentionRows key;
  AttentionRows value;
  const float* bias = nullptr;           ///< [queries, keys], or null
  std::int64_t bias_row = 0;             ///< numbers from one query to the next
  const std::uint8_t* hidden = nullptr;  ///< a byte for each score, or null
  std::int64_t hidden_row = 0;           ///< bytes from one query to the next
  float* logs = nullptr;                 ///< [queries]: logarithm of the sum of exponentials; forward writes it
};

void attention_forward(const AttentionHead& head, const AttentionRows& out);

/// The memory for the gradients.
struct AttentionGradients {
  AttentionRows query;
  AttentionRows key;
  AttentionRows value;
  float* bias = nullptr;  ///< [queries, keys], or null
};
void attention_backward(const AttentionHead& head, const AttentionRows& grad, const AttentionGradients& into);

}  // namespace lockstep::nn
