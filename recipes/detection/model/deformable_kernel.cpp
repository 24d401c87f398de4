// SPDX-License-Identifier: Apache-2.0
// Highway compiles this file once per instruction set (foreach_target.h); one version is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detection/model/deformable_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h, as Highway requires.
#include <hwy/highway.h>

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "detection/model/deformable_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::detection {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A head's channel count is a multiple of 16: see sample_image().
using Floats = hn::CappedTag<float, 16>;
constexpr std::int64_t kLanes = HWY_MIN(16, HWY_LANES(float));

/// One of the four cells around a sampling position.
struct Corner {
  std::int64_t row = -1;  ///< row of the values; below 0 if outside the image
  float weight = 0;
  float by_x = 0;  ///< derivative of the weight with respect to the position's x, in cells
  float by_y = 0;
};

HWY_INLINE void set_corner(const ScaleRows& scale, std::int64_t row, std::int64_t column, Corner weights, Corner& to) {
  if (row < 0 || column < 0 || row >= scale.height || column >= scale.width) return;
  to = weights;
  to.row = scale.first + row * scale.width + column;
}

/// Fills the four `corners`.
HWY_INLINE void find_corners(const ScaleRows& scale, const float* place, Corner* corners) {
  for (int i = 0; i < 4; ++i) corners[i].row = -1;
  const float x = place[0] * static_cast<float>(scale.width) - 0.5F;
  const float y = place[1] * static_cast<float>(scale.height) - 0.5F;
  const bool inside = x > -1 && y > -1 && x < static_cast<float>(scale.width) && y < static_cast<float>(scale.height);
  if (!inside) {
    // Outside the image, samples are 0, but a NaN position must give a NaN result.
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

/// Prefetches the rows of a position's corners, which may be anywhere in the image.
HWY_INLINE void fetch_rows(const SampleShape& shape, const Corner* corners, const float* rows) {
  constexpr std::int64_t kLine = 16;
  for (int c = 0; c < 4; ++c) {
    if (corners[c].row < 0) continue;
    const float* row = rows + corners[c].row * shape.heads * shape.depth;
    for (std::int64_t i = 0; i < shape.depth; i += kLine) hwy::Prefetch(row + i);
  }
}

/// Calls f(scale, corners, share) for the points of one query and head, in order, with four `corners`. `f` reads rows
/// of in.values, and rows of `gradients` unless it is null.
template <class F>
HWY_INLINE void for_points(const SampleShape& shape, SampleInputs in, const float* gradients, F f) {
  constexpr std::int64_t kAhead = 4;
  Corner corners[4 * kAhead];
  for (std::int64_t s = 0; s < shape.scale_count; ++s) {
    const ScaleRows& scale = shape.scales[s];
    for (std::int64_t first = 0; first < scale.points; first += kAhead) {
      const std::int64_t count = std::min(kAhead, scale.points - first);
      for (std::int64_t i = 0; i < count; ++i, in.places += 2) {
        find_corners(scale, in.places, corners + 4 * i);
        fetch_rows(shape, corners + 4 * i, in.values);
        if (gradients != nullptr) fetch_rows(shape, corners + 4 * i, gradients);
      }
      for (std::int64_t i = 0; i < count; ++i, ++in.shares) f(scale, corners + 4 * i, *in.shares);
    }
  }
}

/// Sums kCount vectors of a head's channels over all points, in registers.
template <int kCount>
HWY_INLINE void see(const SampleShape& shape, const SampleInputs& in, float* out) {
  const Floats d;
  const std::int64_t stride = shape.heads * shape.depth;
  hn::Vec<Floats> sums[kCount];
  for (int v = 0; v < kCount; ++v) sums[v] = hn::Zero(d);
  for_points(shape, in, nullptr, [&](const ScaleRows&, const Corner* corners, float share) HWY_ATTR {
    for (int c = 0; c < 4; ++c) {
      if (corners[c].row < 0) continue;
      const auto times = hn::Set(d, corners[c].weight * share);
      const float* from = in.values + corners[c].row * stride;
      for (int v = 0; v < kCount; ++v) sums[v] = hn::MulAdd(times, hn::LoadU(d, from + v * kLanes), sums[v]);
    }
  });
  for (int v = 0; v < kCount; ++v) hn::StoreU(sums[v], d, out + v * kLanes);
}

/// Sums the points of one query and head, 8, 4, 2 or 1 vectors of channels at a time.
HWY_INLINE void see_all(const SampleShape& shape, SampleInputs in, float* out) {
  for (std::int64_t done = 0; done < shape.depth;) {
    const std::int64_t left = (shape.depth - done) / kLanes;
    const std::int64_t count = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    if (count == 8) see<8>(shape, in, out);
    if (count == 4) see<4>(shape, in, out);
    if (count == 2) see<2>(shape, in, out);
    if (count == 1) see<1>(shape, in, out);
    done += count * kLanes;
    in.values += count * kLanes;
    out += count * kLanes;
  }
}

/// The inputs of the query and head with index `pair`.
HWY_INLINE SampleInputs inputs_of(const SampleShape& shape, const SampleInputs& in, std::int64_t pair) {
  const std::int64_t first = pair * shape.points;
  return {.values = in.values + (pair % shape.heads) * shape.depth,
          .places = in.places + 2 * first,
          .shares = in.shares + first};
}

void sample_rows(const SampleShape& shape, SampleInputs in, float* out) {
  for (std::int64_t pair = 0; pair < shape.queries * shape.heads; ++pair) {
    see_all(shape, inputs_of(shape, in, pair), out + pair * shape.depth);
  }
}

/// Returns the product of a row of values with a head's gradient, and adds `factor` times the gradient to the row's
/// gradient. kCount is the number of vectors of the head's channels, or 0 for any number.
template <int kCount>
HWY_INLINE float meet(std::int64_t depth, const float* values, const float* grad, float factor, float* to) {
  const Floats d;
  const std::int64_t count = kCount > 0 ? kCount : depth / kLanes;
  const auto times = hn::Set(d, factor);
  auto sum = hn::Zero(d);
  for (std::int64_t v = 0; v < count; ++v) {
    const auto of_grad = hn::LoadU(d, grad + v * kLanes);
    sum = hn::MulAdd(hn::LoadU(d, values + v * kLanes), of_grad, sum);
    hn::StoreU(hn::MulAdd(times, of_grad, hn::LoadU(d, to + v * kLanes)), d, to + v * kLanes);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Visits the same points in the backward pass. `grad` is the head's gradient.
template <int kCount>
HWY_INLINE void see_backward(const SampleShape& shape, const SampleInputs& in, const float* grad, SampleGradients to) {
  const std::int64_t stride = shape.heads * shape.depth;
  for_points(shape, in, to.values, [&](const ScaleRows& scale, const Corner* corners, float share) HWY_ATTR {
    Corner sums{.row = 0};
    for (int c = 0; c < 4; ++c) {
      const Corner& corner = corners[c];
      if (corner.row < 0) continue;
      const std::int64_t at = corner.row * stride;
      const float product = meet<kCount>(shape.depth, in.values + at, grad, corner.weight * share, to.values + at);
      sums.weight += corner.weight * product;
      sums.by_x += corner.by_x * product;
      sums.by_y += corner.by_y * product;
    }
    *to.shares++ = sums.weight;
    *to.places++ = sums.by_x * share * static_cast<float>(scale.width);
    *to.places++ = sums.by_y * share * static_cast<float>(scale.height);
  });
}

void sample_rows_backward(const SampleShape& shape, SampleInputs in, const float* grad_out, const SampleGradients& to) {
  std::int64_t rows = 0;
  for (std::int64_t s = 0; s < shape.scale_count; ++s) rows += shape.scales[s].height * shape.scales[s].width;
  // Zeroes one image at a time, so that its zeros are still in the cache when gradients are added.
  std::fill_n(to.values, rows * shape.heads * shape.depth, 0.0F);
  for (std::int64_t pair = 0; pair < shape.queries * shape.heads; ++pair) {
    const std::int64_t head = (pair % shape.heads) * shape.depth;
    const std::int64_t first = pair * shape.points;
    const SampleGradients part{
        .values = to.values + head, .places = to.places + 2 * first, .shares = to.shares + first};
    const float* grad = grad_out + pair * shape.depth;
    if (shape.depth == 32) see_backward<32 / kLanes>(shape, inputs_of(shape, in, pair), grad, part);
    if (shape.depth != 32) see_backward<0>(shape, inputs_of(shape, in, pair), grad, part);
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
