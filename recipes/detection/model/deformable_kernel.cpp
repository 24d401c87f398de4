// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h) and chosen among at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detection/model/deformable_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h: Highway asks for it.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "detection/model/deformable_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detection {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Channels of a head are a multiple of 16: see sample_image().
using Floats = hn::CappedTag<float, 16>;

/// One of the four cells around a place.
struct Corner {
  std::int64_t row = -1;  ///< row of the values; below 0: outside of the picture
  float weight = 0;
  float by_x = 0;  ///< derivative of the weight by the place's column, in cells
  float by_y = 0;
};

HWY_INLINE void set_corner(const ScaleRows& scale, std::int64_t row, std::int64_t column, Corner weights, Corner& to) {
  if (row < 0 || column < 0 || row >= scale.height || column >= scale.width) return;
  to = weights;
  to.row = scale.first + row * scale.width + column;
}

/// Fills `corners`, four of them.
HWY_INLINE void find_corners(const ScaleRows& scale, const float* place, Corner* corners) {
  for (int i = 0; i < 4; ++i) corners[i].row = -1;
  const float x = place[0] * static_cast<float>(scale.width) - 0.5F;
  const float y = place[1] * static_cast<float>(scale.height) - 0.5F;
  const bool inside = x > -1 && y > -1 && x < static_cast<float>(scale.width) && y < static_cast<float>(scale.height);
  if (!inside) {
    // Outside nothing is seen. A place that is no number must not go unnoticed.
    if (std::isnan(x + y)) corners[0] = {.row = scale.first, .weight = x + y, .by_x = x + y, .by_y = x + y};
    return;
  }
  const float dx = x - std::floor(x);
  const float dy = y - std::floor(y);
  const auto column = static_cast<std::int64_t>(std::floor(x));
  const auto row = static_cast<std::int64_t>(std::floor(y));
  set_corner(scale, row, column, {-1, (1 - dx) * (1 - dy), dy - 1, dx - 1}, corners[0]);
  set_corner(scale, row, column + 1, {-1, dx * (1 - dy), 1 - dy, -dx}, corners[1]);
  set_corner(scale, row + 1, column, {-1, (1 - dx) * dy, -dy, 1 - dx}, corners[2]);
  set_corner(scale, row + 1, column + 1, {-1, dx * dy, dy, dx}, corners[3]);
}

HWY_INLINE void add(std::int64_t depth, float factor, const float* from, float* to) {
  const Floats d;
  const auto times = hn::Set(d, factor);
  for (std::int64_t i = 0; i < depth; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::MulAdd(times, hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
  }
}

HWY_INLINE float dot(std::int64_t depth, const float* a, const float* b) {
  const Floats d;
  auto sum = hn::Zero(d);
  for (std::int64_t i = 0; i < depth; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// The points of one query and head, from `at` on.
HWY_INLINE void see(const SampleShape& shape, SampleInputs in, float* out) {
  Corner corners[4];
  const std::int64_t stride = shape.heads * shape.depth;
  for (std::int64_t s = 0; s < shape.scale_count; ++s) {
    for (std::int64_t i = 0; i < shape.scales[s].points; ++i, in.places += 2, ++in.shares) {
      find_corners(shape.scales[s], in.places, corners);
      for (const Corner& corner : corners) {
        if (corner.row >= 0) add(shape.depth, corner.weight * *in.shares, in.values + corner.row * stride, out);
      }
    }
  }
}

/// Those of one query and head, `pair`.
HWY_INLINE SampleInputs inputs_of(const SampleShape& shape, const SampleInputs& in, std::int64_t pair) {
  const std::int64_t first = pair * shape.points;
  return {.values = in.values + (pair % shape.heads) * shape.depth,
          .places = in.places + 2 * first,
          .shares = in.shares + first};
}

void sample_rows(const SampleShape& shape, SampleInputs in, float* out) {
  std::fill_n(out, shape.queries * shape.heads * shape.depth, 0.0F);
  for (std::int64_t pair = 0; pair < shape.queries * shape.heads; ++pair) {
    see(shape, inputs_of(shape, in, pair), out + pair * shape.depth);
  }
}

/// The same points in backward. `grad` is the head's.
HWY_INLINE void see_backward(const SampleShape& shape, SampleInputs in, const float* grad, SampleGradients to) {
  Corner corners[4];
  const std::int64_t stride = shape.heads * shape.depth;
  for (std::int64_t s = 0; s < shape.scale_count; ++s) {
    const ScaleRows& scale = shape.scales[s];
    for (std::int64_t i = 0; i < scale.points; ++i, in.places += 2, ++in.shares, to.places += 2, ++to.shares) {
      find_corners(scale, in.places, corners);
      Corner sums{.row = 0};
      for (const Corner& corner : corners) {
        if (corner.row < 0) continue;
        const float product = dot(shape.depth, in.values + corner.row * stride, grad);
        sums.weight += corner.weight * product;
        sums.by_x += corner.by_x * product;
        sums.by_y += corner.by_y * product;
        add(shape.depth, corner.weight * *in.shares, grad, to.values + corner.row * stride);
      }
      *to.shares = sums.weight;
      to.places[0] = sums.by_x * *in.shares * static_cast<float>(scale.width);
      to.places[1] = sums.by_y * *in.shares * static_cast<float>(scale.height);
    }
  }
}

void sample_rows_backward(const SampleShape& shape, SampleInputs in, const float* grad_out, const SampleGradients& to) {
  std::int64_t rows = 0;
  for (std::int64_t s = 0; s < shape.scale_count; ++s) rows += shape.scales[s].height * shape.scales[s].width;
  // One image's zeros are in the cache when they are added to.
  std::fill_n(to.values, rows * shape.heads * shape.depth, 0.0F);
  for (std::int64_t pair = 0; pair < shape.queries * shape.heads; ++pair) {
    const std::int64_t head = (pair % shape.heads) * shape.depth;
    const std::int64_t first = pair * shape.points;
    see_backward(shape, inputs_of(shape, in, pair), grad_out + pair * shape.depth,
                 {.values = to.values + head, .places = to.places + 2 * first, .shares = to.shares + first});
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::detection
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::detection {

HWY_EXPORT(sample_rows);
HWY_EXPORT(sample_rows_backward);

void sample_image(const SampleShape& shape, SampleInputs in, float* out) {
  HWY_DYNAMIC_DISPATCH(sample_rows)(shape, in, out);
}

void sample_image_backward(const SampleShape& shape, SampleInputs in, const float* grad_out,
                           const SampleGradients& to) {
  HWY_DYNAMIC_DISPATCH(sample_rows_backward)(shape, in, grad_out, to);
}

}  // namespace lockstep::detection
#endif
