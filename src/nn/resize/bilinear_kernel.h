// SPDX-License-Identifier: Apache-2.0
// Resizes one channels-last image bilinearly, and computes the gradient. Does not use libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// The two pixels along an axis between which a result is interpolated.
struct Between {
  std::int64_t first = 0;
  std::int64_t second = 0;
  float share = 0;  ///< weight of the second pixel
};

/// Returns the pixels for each of `to` results along an axis of `from` pixels.
[[nodiscard]] std::vector<Between> places_between(std::int64_t from, std::int64_t to, bool align_corners);
/// Returns only the nearest pixel for each result.
[[nodiscard]] std::vector<Between> nearest_places(std::int64_t from, std::int64_t to);

struct Bilinear {
  std::vector<Between> rows;
  std::vector<Between> columns;
  std::int64_t width = 0;     ///< width of the source image
  std::int64_t channels = 0;  ///< a multiple of 8
};

/// Resizes `from` [height, width, channels] to `to` [rows, columns, channels], both of type `type`.
void bilinear_forward(ElementType type, const Bilinear& plan, const void* from, void* to);
/// Adds the gradient of the results to `sums` [height, width, channels], in the order of the results.
void bilinear_backward(ElementType type, const Bilinear& plan, const void* grad, float* sums);
/// Writes `count` sums, a multiple of 8, as elements of `type`.
void write_sums(ElementType type, const float* sums, std::int64_t count, void* to);

}  // namespace lockstep::nn
