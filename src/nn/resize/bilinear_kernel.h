// SPDX-License-Identifier: Apache-2.0
// Bilinear resizing of one channels-last image and its gradient. Free of libtorch.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/vector/element_type.h"

namespace lockstep::nn {

/// Which two pixels of a direction a result lies between.
struct Between {
  std::int64_t first = 0;
  std::int64_t second = 0;
  float share = 0;  ///< of the second
};

/// For each of `to` results of a direction that has `from` pixels.
[[nodiscard]] std::vector<Between> places_between(std::int64_t from, std::int64_t to, bool align_corners);
/// The same with the nearest pixel alone.
[[nodiscard]] std::vector<Between> nearest_places(std::int64_t from, std::int64_t to);

struct Bilinear {
  std::vector<Between> rows;
  std::vector<Between> columns;
  std::int64_t width = 0;     ///< of the image that is read
  std::int64_t channels = 0;  ///< a multiple of 8
};

/// `from` [height, width, channels] to `to` [rows, columns, channels], both of the type.
void bilinear_forward(ElementType type, const Bilinear& by, const void* from, void* to);
/// Adds the gradient of the results to `sums` [height, width, channels], in the order of the results.
void bilinear_backward(ElementType type, const Bilinear& by, const void* grad, float* sums);
/// Writes `count` sums, a multiple of 8, in the type.
void write_sums(ElementType type, const float* sums, std::int64_t count, void* to);

}  // namespace lockstep::nn
