// SPDX-License-Identifier: Apache-2.0
#include "detection/deformable_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::detection {
namespace {

/// One of the four cells around a place.
struct Corner {
  std::int64_t row = -1;  ///< of the values; below 0: outside of the picture
  float weight = 0;
  float by_x = 0;  ///< derivative of the weight by the place's column, in cells
  float by_y = 0;
};

std::array<Corner, 4> corners_of(const ScaleRows& scale, float x, float y) {
  std::array<Corner, 4> corners;
  const float column = x * static_cast<float>(scale.width) - 0.5F;
  const float row = y * static_cast<float>(scale.height) - 0.5F;
  const bool inside =
      column > -1 && row > -1 && column < static_cast<float>(scale.width) && row < static_cast<float>(scale.height);
  if (!inside) {
    // Outside nothing is seen. A place that is no number must not go unnoticed.
    const float sum = column + row;
    if (std::isnan(sum)) corners[0] = {.row = scale.first, .weight = sum};
    return corners;
  }
  const float left = std::floor(column);
  const float top = std::floor(row);
  const float dx = column - left;
  const float dy = row - top;
  for (std::size_t i = 0; i < 4; ++i) {
    const bool right = (i & 1U) != 0;
    const bool low = (i & 2U) != 0;
    const float wx = right ? dx : 1 - dx;
    const float wy = low ? dy : 1 - dy;
    const std::int64_t at_column = static_cast<std::int64_t>(left) + (right ? 1 : 0);
    const std::int64_t at_row = static_cast<std::int64_t>(top) + (low ? 1 : 0);
    if (at_column < 0 || at_row < 0 || at_column >= scale.width || at_row >= scale.height) continue;
    corners[i] = {.row = scale.first + at_row * scale.width + at_column,
                  .weight = wx * wy,
                  .by_x = right ? wy : -wy,
                  .by_y = low ? wx : -wx};
  }
  return corners;
}

/// Calls visit(point, scale) for the points of all scales, in order.
template <class Visit>
void for_each_point(const SampleShape& shape, Visit visit) {
  std::int64_t point = 0;
  for (std::int64_t s = 0; s < shape.scale_count; ++s) {
    for (std::int64_t i = 0; i < shape.scales[s].points; ++i) visit(point++, shape.scales[s]);
  }
}

/// Channels of a head: as a constant the loops over them become vector instructions.
template <std::int64_t kDepth>
void forward(const SampleShape& shape, const float* values, const float* places, const float* shares, float* out) {
  const std::int64_t depth = kDepth > 0 ? kDepth : shape.depth;
  const std::int64_t stride = shape.heads * depth;
  for (std::int64_t pair = 0; pair < shape.queries * shape.heads; ++pair) {
    const float* head_values = values + (pair % shape.heads) * depth;
    float* head_out = out + pair * depth;
    std::fill_n(head_out, depth, 0.0F);
    for_each_point(shape, [&](std::int64_t point, const ScaleRows& scale) {
      const std::int64_t at = pair * shape.points + point;
      for (const Corner& corner : corners_of(scale, places[2 * at], places[2 * at + 1])) {
        if (corner.row < 0) continue;
        const float weight = corner.weight * shares[at];
        const float* row = head_values + corner.row * stride;
        for (std::int64_t d = 0; d < depth; ++d) head_out[d] += weight * row[d];
      }
    });
  }
}

template <std::int64_t kDepth>
float dot(const float* a, const float* b, std::int64_t depth) {
  // Four sums, so that the order of additions is one that vector instructions have.
  std::array<float, 4> sums{};
  if constexpr (kDepth % 4 == 0 && kDepth > 0) {
    for (std::int64_t d = 0; d < kDepth; d += 4) {
      for (std::size_t i = 0; i < 4; ++i)
        sums[i] += a[d + static_cast<std::int64_t>(i)] * b[d + static_cast<std::int64_t>(i)];
    }
  } else {
    for (std::int64_t d = 0; d < depth; ++d) sums[static_cast<std::size_t>(d) % 4] += a[d] * b[d];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <std::int64_t kDepth>
void backward(const SampleShape& shape, const float* values, const float* places, const float* shares,
              const float* grad_out, const SampleGradients& to) {
  const std::int64_t depth = kDepth > 0 ? kDepth : shape.depth;
  const std::int64_t stride = shape.heads * depth;
  for (std::int64_t pair = 0; pair < shape.queries * shape.heads; ++pair) {
    const std::int64_t head = (pair % shape.heads) * depth;
    const float* grad = grad_out + pair * depth;
    for_each_point(shape, [&](std::int64_t point, const ScaleRows& scale) {
      const std::int64_t at = pair * shape.points + point;
      float share = 0;
      float by_x = 0;
      float by_y = 0;
      for (const Corner& corner : corners_of(scale, places[2 * at], places[2 * at + 1])) {
        if (corner.row < 0) continue;
        const std::int64_t row = corner.row * stride + head;
        const float product = dot<kDepth>(values + row, grad, depth);
        share += corner.weight * product;
        by_x += corner.by_x * product;
        by_y += corner.by_y * product;
        const float weight = corner.weight * shares[at];
        for (std::int64_t d = 0; d < depth; ++d) to.values[row + d] += weight * grad[d];
      }
      to.shares[at] = share;
      to.places[2 * at] = by_x * shares[at] * static_cast<float>(scale.width);
      to.places[2 * at + 1] = by_y * shares[at] * static_cast<float>(scale.height);
    });
  }
}

}  // namespace

void sample_image(const SampleShape& shape, const float* values, const float* places, const float* shares, float* out) {
  if (shape.depth == 16) return forward<16>(shape, values, places, shares, out);
  if (shape.depth == 32) return forward<32>(shape, values, places, shares, out);
  forward<0>(shape, values, places, shares, out);
}

void sample_image_backward(const SampleShape& shape, const float* values, const float* places, const float* shares,
                           const float* grad_out, const SampleGradients& to) {
  if (shape.depth == 16) return backward<16>(shape, values, places, shares, grad_out, to);
  if (shape.depth == 32) return backward<32>(shape, values, places, shares, grad_out, to);
  backward<0>(shape, values, places, shares, grad_out, to);
}

}  // namespace lockstep::detection
