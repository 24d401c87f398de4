// SPDX-License-Identifier: Apache-2.0
// Losses whose forward computes the gradient in the same pass, because both need the same exponentials. Both element
// types are computed in float32. Does not use libtorch.
#pragma once

#include <cstdint>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// Rows or pixels [begin, end).
struct LossRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// With x a logit, y its target and s the logistic function, an element's loss is -(y log s(x) + (1 - y) log(1 -
/// s(x))), times its class's weight. Logits, targets and gradient are [rows, classes].
struct MultiLabelLoss {
  ElementType type;
  std::int64_t classes = 0;
  const void* logits = nullptr;
  const float* target = nullptr;
  const float* weight = nullptr;  ///< [classes], or null
  float scale = 1;                ///< multiplies the gradient
  void* grad = nullptr;           ///< receives the gradient, or null
};

/// Writes the sum over the classes of each row in the range to `losses`, whose first element belongs to row 0.
void multi_label_loss(const MultiLabelLoss& loss, LossRange rows, float* losses);

/// Cross entropy with a class for each element (a row, or a pixel of an image). With m the label smoothing, C classes
/// and target class y: loss = -(1 - m) w_y log p_y - (m / C) sum over c of w_c log p_c.
struct CrossEntropy {
  ElementType type;
  std::int64_t classes = 0;
  const void* logits = nullptr;
  const std::int64_t* target = nullptr;  ///< checked by the caller: each a class, or `ignored`
  std::int64_t ignored = 0;
  const float* weight = nullptr;  ///< [classes]
  float weight_sum = 0;           ///< sum of the weights over the classes
  float smoothing = 0;
  float scale = 1;       ///< multiplies the gradient
  void* grad = nullptr;  ///< receives the gradient, or null
};

/// Computes the losses for logits [elements, classes], with the classes adjacent in memory.
void cross_entropy_rows(const CrossEntropy& loss, LossRange elements, float* losses);

/// Computes the losses of one image in a batch, [classes, pixels], with adjacent pixels; target and losses are
/// [pixels].
void cross_entropy_image(const CrossEntropy& loss, std::int64_t pixels, LossRange range, float* losses);

}  // namespace lockstep::nn
