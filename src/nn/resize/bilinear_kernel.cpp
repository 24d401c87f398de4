// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/resize/bilinear_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "nn/resize/bilinear_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

/// The four pixels of a result, and their weights.
struct Corners {
  std::int64_t places[4];
  float shares[4];
};

inline Corners corners_of(const Bilinear& plan, const Between& row, const Between& column) {
  const std::int64_t upper = row.first * plan.width;
  const std::int64_t lower = row.second * plan.width;
  return {.places = {(upper + column.first) * plan.channels, (upper + column.second) * plan.channels,
                     (lower + column.first) * plan.channels, (lower + column.second) * plan.channels},
          .shares = {(1 - row.share) * (1 - column.share), (1 - row.share) * column.share,
                     row.share * (1 - column.share), row.share * column.share}};
}

template <class T>
void forward_image(const Bilinear& plan, const T* from, T* to) {
  for (const Between& row : plan.rows) {
    for (const Between& column : plan.columns) {
      const Corners four = corners_of(plan, row, column);
      for_channels(plan.channels, [&](auto d, std::int64_t c) HWY_ATTR {
        auto sum = hn::Mul(hn::Set(d, four.shares[0]), load(d, from + four.places[0] + c));
        for (int i = 1; i < 4; ++i) {
          sum = hn::MulAdd(hn::Set(d, four.shares[i]), load(d, from + four.places[i] + c), sum);
        }
        store(sum, d, to + c);
      });
      to += plan.channels;
    }
  }
}

template <class T>
void backward_image(const Bilinear& plan, const T* grad, float* sums) {
  for (const Between& row : plan.rows) {
    for (const Between& column : plan.columns) {
      const Corners four = corners_of(plan, row, column);
      for_channels(plan.channels, [&](auto d, std::int64_t c) HWY_ATTR {
        const auto g = load(d, grad + c);
        for (int i = 0; i < 4; ++i) {
          float* at = sums + four.places[i] + c;
          hn::StoreU(hn::MulAdd(hn::Set(d, four.shares[i]), g, hn::LoadU(d, at)), d, at);
        }
      });
      grad += plan.channels;
    }
  }
}

template <class T>
void write_all(const float* sums, std::int64_t count, T* to) {
  for_channels(count, [&](auto d, std::int64_t i) HWY_ATTR { store(hn::LoadU(d, sums + i), d, to + i); });
}

void bilinear_forward_of(ElementType type, const Bilinear& plan, const void* from, void* to) {
  if (type == ElementType::kFloat) return forward_image(plan, static_cast<const float*>(from), static_cast<float*>(to));
  forward_image(plan, static_cast<const std::uint16_t*>(from), static_cast<std::uint16_t*>(to));
}

void bilinear_backward_of(ElementType type, const Bilinear& plan, const void* grad, float* sums) {
  if (type == ElementType::kFloat) return backward_image(plan, static_cast<const float*>(grad), sums);
  backward_image(plan, static_cast<const std::uint16_t*>(grad), sums);
}

void write_sums_of(ElementType type, const float* sums, std::int64_t count, void* to) {
  if (type == ElementType::kFloat) return write_all(sums, count, static_cast<float*>(to));
  write_all(sums, count, static_cast<std::uint16_t*>(to));
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(bilinear_forward_of);
HWY_EXPORT(bilinear_backward_of);
HWY_EXPORT(write_sums_of);

void bilinear_forward(ElementType type, const Bilinear& plan, const void* from, void* to) {
  HWY_DYNAMIC_DISPATCH(bilinear_forward_of)(type, plan, from, to);
}

void bilinear_backward(ElementType type, const Bilinear& plan, const void* grad, float* sums) {
  HWY_DYNAMIC_DISPATCH(bilinear_backward_of)(type, plan, grad, sums);
}

void write_sums(ElementType type, const float* sums, std::int64_t count, void* to) {
  HWY_DYNAMIC_DISPATCH(write_sums_of)(type, sums, count, to);
}

std::vector<Between> places_between(std::int64_t from, std::int64_t to, bool align_corners) {
  const auto pixels = static_cast<float>(from);
  const auto results = static_cast<float>(to);
  const float corners = to > 1 ? (pixels - 1) / (results - 1) : 0.0F;
  const float scale = align_corners ? corners : pixels / results;
  std::vector<Between> places;
  for (std::int64_t i = 0; i < to; ++i) {
    const auto result = static_cast<float>(i);
    const float at = align_corners ? scale * result : std::max(0.0F, scale * (result + 0.5F) - 0.5F);
    const std::int64_t first = std::min(static_cast<std::int64_t>(at), from - 1);
    places.push_back({.first = first,
                      .second = std::min(first + 1, from - 1),
                      .share = std::min(1.0F, at - static_cast<float>(first))});
  }
  return places;
}

std::vector<Between> nearest_places(std::int64_t from, std::int64_t to) {
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  std::vector<Between> places;
  for (std::int64_t i = 0; i < to; ++i) {
    const std::int64_t at = std::min(static_cast<std::int64_t>(static_cast<float>(i) * scale), from - 1);
    places.push_back({.first = at, .second = at, .share = 0});
  }
  return places;
}

}  // namespace lockstep::nn
#endif
