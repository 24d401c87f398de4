// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/loss/loss_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "nn/loss/loss_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

// Pixels whose classes are processed together: with a few dozen classes their values stay in the first-level cache.
constexpr std::int64_t kTile = 64;

/// Returns the exponential; it keeps NaN, for which Highway's returns 0.
HWY_INLINE hn::Vec<Floats> exponential(Floats d, hn::Vec<Floats> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

/// Loss and gradient of the elements of a multi-label loss.
struct LossAndSlope {
  hn::Vec<Floats> loss;
  hn::Vec<Floats> slope;
};

/// Computes both from exp(-|x|), which never overflows.
HWY_INLINE LossAndSlope multi_label(Floats d, hn::Vec<Floats> x, hn::Vec<Floats> y) {
  const auto one = hn::Set(d, 1.0F);
  const auto e = exponential(d, hn::Neg(hn::Abs(x)));
  const auto straight = hn::NegMulAdd(x, y, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x));
  const auto larger = hn::Div(one, hn::Add(one, e));  // the larger of s(x) and 1 - s(x)
  const auto s = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(e, larger), larger);
  return {hn::Add(straight, hn::Log1p(d, e)), hn::Sub(s, y)};
}

template <class T>
void multi_label_rows(const MultiLabelLoss& loss, LossRange rows, float* losses) {
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const T* x = static_cast<const T*>(loss.logits) + row * loss.classes;
    const float* y = loss.target + row * loss.classes;
    const Floats whole;
    auto sum = hn::Zero(whole);
    for_span(0, loss.classes, [&](auto d, std::int64_t c, auto memory) HWY_ATTR {
      auto found = multi_label(d, memory.get(d, x + c), memory.get(d, y + c));
      if (loss.weight != nullptr) {
        const auto weight = memory.get(d, loss.weight + c);
        found = {hn::Mul(found.loss, weight), hn::Mul(found.slope, weight)};
      }
      sum = hn::Add(sum, memory.only(d, found.loss));
      if (loss.grad == nullptr) return;
      memory.put(hn::Mul(found.slope, hn::Set(d, loss.scale)), d, static_cast<T*>(loss.grad) + row * loss.classes + c);
    });
    losses[row] = sum_of(whole, sum);
  }
}

HWY_INLINE float to_float(float value) { return value; }
HWY_INLINE float to_float(std::uint16_t bits) {
  const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

/// The weights of the hard and smooth parts of an element's loss.
struct Parts {
  float hard;
  float smooth;  ///< factor of each class's weight
  float total;   ///< `hard`, plus the sum of the smooth parts of all classes
};

HWY_INLINE Parts parts_of(const CrossEntropy& loss, std::int64_t target) {
  if (target == loss.ignored) return {0, 0, 0};
  const float hard = (1 - loss.smoothing) * loss.weight[target];
  const float smooth = loss.smoothing / static_cast<float>(loss.classes);
  return {hard, smooth, hard + smooth * loss.weight_sum};
}

template <class T>
HWY_INLINE float largest_of(const T* x, std::int64_t count) {
  const Floats d;
  auto largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for_span(0, count, [&](auto tag, std::int64_t i, auto memory) HWY_ATTR {
    const auto lowest = hn::Set(tag, -std::numeric_limits<float>::infinity());
    largest = hn::Max(largest, memory.or_else(tag, memory.get(tag, x + i), lowest));
  });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

/// Sums over a row's classes: the exponentials, which are also stored, and w * (x - largest).
struct RowSums {
  float exponentials;
  float weighted;
};

template <class T>
HWY_INLINE RowSums row_sums(const CrossEntropy& loss, const T* x, float largest, float* exponentials) {
  const Floats d;
  auto sum = hn::Zero(d);
  auto weighted = hn::Zero(d);
  for_span(0, loss.classes, [&](auto tag, std::int64_t c, auto memory) HWY_ATTR {
    const auto v = hn::Sub(memory.get(tag, x + c), hn::Set(tag, largest));
    const auto e = memory.only(tag, exponential(tag, v));
    hn::StoreU(e, tag, exponentials + c);
    sum = hn::Add(sum, e);
    if (loss.smoothing > 0)
      weighted = hn::Add(weighted, memory.only(tag, hn::Mul(v, memory.get(tag, loss.weight + c))));
  });
  return {sum_of(d, sum), sum_of(d, weighted)};
}

/// Computes grad = scale * (total * p - smooth * w), minus scale * hard at the target.
template <class T>
HWY_INLINE void row_gradient(const CrossEntropy& loss, std::int64_t row, const Parts& parts, float sum,
                             float* exponentials) {
  const std::int64_t target = loss.target[row];
  if (target != loss.ignored && parts.total != 0) {
    // Subtracts the hard part from the target's exponential, so that one pass writes the whole gradient.
    exponentials[target] -= parts.hard * sum / parts.total;
  }
  const float factor = parts.total == 0 ? 0 : loss.scale * parts.total / sum;
  T* grad = static_cast<T*>(loss.grad) + row * loss.classes;
  for_span(0, loss.classes, [&](auto d, std::int64_t c, auto memory) HWY_ATTR {
    auto g = hn::Mul(hn::LoadU(d, exponentials + c), hn::Set(d, factor));
    if (parts.smooth != 0) {
      g = hn::NegMulAdd(memory.get(d, loss.weight + c), hn::Set(d, loss.scale * parts.smooth), g);
    }
    memory.put(g, d, grad + c);
  });
}

template <class T>
void rows(const CrossEntropy& loss, LossRange range, float* losses) {
  std::vector<float> exponentials(static_cast<std::size_t>(padded(loss.classes)));
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const T* x = static_cast<const T*>(loss.logits) + row * loss.classes;
    const Parts parts = parts_of(loss, loss.target[row]);
    if (parts.total == 0) {
      losses[row] = 0;
      if (loss.grad != nullptr) std::fill_n(static_cast<T*>(loss.grad) + row * loss.classes, loss.classes, T{0});
      continue;
    }
    const float largest = largest_of(x, loss.classes);
    const RowSums sums = row_sums(loss, x, largest, exponentials.data());
    const float at_target = to_float(x[loss.target[row]]) - largest;
    losses[row] = parts.total * std::log(sums.exponentials) - parts.hard * at_target - parts.smooth * sums.weighted;
    if (loss.grad != nullptr) row_gradient<T>(loss, row, parts, sums.exponentials, exponentials.data());
  }
}

/// A tile of pixels: the values for each pixel, and the exponentials as [classes, kTile].
struct Tile {
  explicit Tile(std::int64_t classes) : exponentials(static_cast<std::size_t>(classes * kTile)) {}

  std::int64_t first = 0;
  std::int64_t count = 0;
  Parts parts[kTile] = {};
  HWY_ALIGN float largest[kTile] = {};
  HWY_ALIGN float sums[kTile] = {};
  HWY_ALIGN float weighted[kTile] = {};
  HWY_ALIGN float by[kTile] = {};
  HWY_ALIGN float smooth[kTile] = {};
  std::vector<float> exponentials;
};

template <class T>
HWY_INLINE void tile_sums(const CrossEntropy& loss, const T* x, std::int64_t pixels, Tile& tile) {
  std::fill_n(tile.largest, kTile, -std::numeric_limits<float>::infinity());
  std::fill_n(tile.sums, kTile, 0.0F);
  std::fill_n(tile.weighted, kTile, 0.0F);
  for (std::int64_t c = 0; c < loss.classes; ++c) {
    for_span(0, tile.count, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
      const auto v = memory.get(d, x + c * pixels + tile.first + i);
      hn::StoreU(hn::Max(hn::LoadU(d, tile.largest + i), v), d, tile.largest + i);
    });
  }
  for (std::int64_t c = 0; c < loss.classes; ++c) {
    float* exponentials = tile.exponentials.data() + c * kTile;
    for_span(0, tile.count, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
      const auto v = hn::Sub(memory.get(d, x + c * pixels + tile.first + i), hn::LoadU(d, tile.largest + i));
      const auto e = exponential(d, v);
      hn::StoreU(e, d, exponentials + i);
      add_to(e, d, tile.sums + i);
      if (loss.smoothing > 0) add_to(hn::Mul(v, hn::Set(d, loss.weight[c])), d, tile.weighted + i);
    });
  }
}

/// Computes the losses and each pixel's gradient factors, and subtracts the hard part from the target's exponential.
template <class T>
HWY_INLINE void tile_losses(const CrossEntropy& loss, const T* x, std::int64_t pixels, Tile& tile, float* losses) {
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const std::int64_t pixel = tile.first + i;
    const std::int64_t target = loss.target[pixel];
    const Parts parts = parts_of(loss, target);
    tile.smooth[i] = 0;
    tile.by[i] = 0;
    losses[pixel] = 0;
    if (parts.total == 0) {
      // The factors stay 0: if every pixel is ignored, the scale is infinite and its product with 0 would be NaN.
      // Sets exponentials to 0, because 0 times NaN would be NaN.
      for (std::int64_t c = 0; c < loss.classes; ++c) tile.exponentials[static_cast<std::size_t>(c * kTile + i)] = 0;
      continue;
    }
    const float at_target = to_float(x[target * pixels + pixel]) - tile.largest[i];
    losses[pixel] = parts.total * std::log(tile.sums[i]) - parts.hard * at_target - parts.smooth * tile.weighted[i];
    tile.smooth[i] = loss.scale * parts.smooth;
    tile.by[i] = loss.scale * parts.total / tile.sums[i];
    tile.exponentials[static_cast<std::size_t>(target * kTile + i)] -= parts.hard * tile.sums[i] / parts.total;
  }
}

template <class T>
HWY_INLINE void tile_gradient(const CrossEntropy& loss, std::int64_t pixels, const Tile& tile) {
  for (std::int64_t c = 0; c < loss.classes; ++c) {
    const float* exponentials = tile.exponentials.data() + c * kTile;
    T* grad = static_cast<T*>(loss.grad) + c * pixels + tile.first;
    for_span(0, tile.count, [&](auto d, std::int64_t i, auto memory) HWY_ATTR {
      auto g = hn::Mul(hn::LoadU(d, exponentials + i), hn::LoadU(d, tile.by + i));
      if (loss.smoothing > 0) g = hn::NegMulAdd(hn::LoadU(d, tile.smooth + i), hn::Set(d, loss.weight[c]), g);
      memory.put(g, d, grad + i);
    });
  }
}

template <class T>
void image(const CrossEntropy& loss, std::int64_t pixels, LossRange range, float* losses) {
  Tile tile(loss.classes);
  const T* x = static_cast<const T*>(loss.logits);
  for (tile.first = range.begin; tile.first < range.end; tile.first += kTile) {
    tile.count = std::min(kTile, range.end - tile.first);
    tile_sums(loss, x, pixels, tile);
    tile_losses(loss, x, pixels, tile, losses);
    if (loss.grad != nullptr) tile_gradient<T>(loss, pixels, tile);
  }
}

void multi_label_of(const MultiLabelLoss& loss, LossRange range, float* losses) {
  loss.type == ElementType::kFloat ? multi_label_rows<float>(loss, range, losses)
                                   : multi_label_rows<std::uint16_t>(loss, range, losses);
}

void rows_of(const CrossEntropy& loss, LossRange range, float* losses) {
  loss.type == ElementType::kFloat ? rows<float>(loss, range, losses) : rows<std::uint16_t>(loss, range, losses);
}

void image_of(const CrossEntropy& loss, std::int64_t pixels, LossRange range, float* losses) {
  loss.type == ElementType::kFloat ? image<float>(loss, pixels, range, losses)
                                   : image<std::uint16_t>(loss, pixels, range, losses);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(multi_label_of);
HWY_EXPORT(rows_of);
HWY_EXPORT(image_of);

void multi_label_loss(const MultiLabelLoss& loss, LossRange rows, float* losses) {
  HWY_DYNAMIC_DISPATCH(multi_label_of)(loss, rows, losses);
}

void cross_entropy_rows(const CrossEntropy& loss, LossRange elements, float* losses) {
  HWY_DYNAMIC_DISPATCH(rows_of)(loss, elements, losses);
}

void cross_entropy_image(const CrossEntropy& loss, std::int64_t pixels, LossRange range, float* losses) {
  HWY_DYNAMIC_DISPATCH(image_of)(loss, pixels, range, losses);
}

}  // namespace lockstep::nn
#endif
