// SPDX-License-Identifier: Apache-2.0
// The loops of sample_points() on plain memory. A head's channel count is a multiple of 16.
#pragma once

#include <cstdint>

namespace lockstep::detection {

/// One scale: its size, and the index of its first row among all rows.
struct ScaleRows {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t first = 0;
  std::int64_t points = 0;
};

/// The sizes of one image's tensors (see sample_points()).
struct SampleShape {
  const ScaleRows* scales = nullptr;
  std::int64_t scale_count = 0;
  std::int64_t queries = 0;
  std::int64_t heads = 0;
  std::int64_t depth = 0;   ///< channels of a head
  std::int64_t points = 0;  ///< total number of points in all scales
};

/// The inputs of sample_points() for one image.
struct SampleInputs {
  const float* values = nullptr;
  const float* places = nullptr;
  const float* shares = nullptr;
};

/// Writes the result to `out`.
void sample_image(const SampleShape& shape, SampleInputs in, float* out);

/// The gradients of SampleInputs; every element is written.
struct SampleGradients {
  float* values = nullptr;
  float* places = nullptr;
  float* shares = nullptr;
};

void sample_image_backward(const SampleShape& shape, SampleInputs in, const float* grad_out, const SampleGradients& to);

}  // namespace lockstep::detection
