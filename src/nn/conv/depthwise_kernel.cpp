// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/conv/depthwise_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>

#include "nn/conv/depthwise.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

// Results computed at once: no sum waits for the previous sum, and one read of a weight serves all results.
constexpr std::int64_t kResults = 4;

template <class T>
void forward_class(const DirectPlan& plan, const DirectClass& results, const DepthwiseImage& image) {
  const T* x = static_cast<const T*>(image.x);
  const auto count = static_cast<std::int64_t>(results.pixels.size());
  for (std::int64_t first = 0; first < count; first += kResults) {
    const T* from[kResults];
    T* to[kResults];
    for (std::int64_t r = 0; r < kResults; ++r) {
      const DirectPixel& pixel = results.pixels[static_cast<std::size_t>(std::min(first + r, count - 1))];
      from[r] = x + pixel.from * plan.in;
      to[r] = static_cast<T*>(image.y) + pixel.to * plan.in;
    }
    for_channels(plan.in, [&](auto d, std::int64_t c) HWY_ATTR {
      hn::Vec<decltype(d)> sums[kResults];
      for (auto& sum : sums) sum = image.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, image.bias + c);
      for (const DirectRun& run : results.runs) {
        for (std::int64_t t = 0; t < run.taps; ++t) {
          const auto weight = hn::LoadU(d, image.weights + (run.tap + t) * plan.in + c);
          const std::int64_t at = (run.from + t) * plan.in + c;
          for (std::int64_t r = 0; r < kResults; ++r) sums[r] = hn::MulAdd(load(d, from[r] + at), weight, sums[r]);
        }
      }
      for (std::int64_t r = 0; r < kResults; ++r) store(sums[r], d, to[r] + c);
    });
  }
}

template <class T>
void forward_image(const DirectPlan& plan, const DepthwiseImage& image) {
  for (const DirectClass& one : plan.classes) forward_class<T>(plan, one, image);
}

template <class T>
void sum_image(const DirectPlan& plan, const T* x, const T* dy, float* sums) {
  std::fill(sums, sums + plan.taps * plan.in, 0.0F);
  for (const DirectClass& one : plan.classes) {
    for (const DirectRun& run : one.runs) {
      for (std::int64_t t = 0; t < run.taps; ++t) {
        float* to = sums + (run.tap + t) * plan.in;
        const T* from = x + (run.from + t) * plan.in;
        for_channels(plan.in, [&](auto d, std::int64_t c) HWY_ATTR {
          hn::Vec<decltype(d)> parts[kResults];
          for (auto& part : parts) part = hn::Zero(d);
          const auto add = [&](std::int64_t pixel, std::int64_t r) HWY_ATTR {
            const DirectPixel& at = one.pixels[static_cast<std::size_t>(pixel)];
            const auto g = load(d, dy + at.to * plan.in + c);
            parts[r] = hn::MulAdd(g, load(d, from + at.from * plan.in + c), parts[r]);
          };
          const auto count = static_cast<std::int64_t>(one.pixels.size());
          std::int64_t i = 0;
          for (; i + kResults <= count; i += kResults) {
            for (std::int64_t r = 0; r < kResults; ++r) add(i + r, r);
          }
          for (; i < count; ++i) add(i, 0);
          add_to(hn::Add(hn::Add(parts[0], parts[1]), hn::Add(parts[2], parts[3])), d, to + c);
        });
      }
    }
  }
}

void depthwise_forward_of(const DirectPlan& plan, const DepthwiseImage& image) {
  if (image.type == ElementType::kFloat) return forward_image<float>(plan, image);
  forward_image<std::uint16_t>(plan, image);
}

void depthwise_sums_of(const DirectPlan& plan, ElementType type, const void* x, const void* dy, float* sums) {
  if (type == ElementType::kFloat) {
    return sum_image(plan, static_cast<const float*>(x), static_cast<const float*>(dy), sums);
  }
  sum_image(plan, static_cast<const std::uint16_t*>(x), static_cast<const std::uint16_t*>(dy), sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(depthwise_forward_of);
HWY_EXPORT(depthwise_sums_of);

void depthwise_forward(const DirectPlan& plan, const DepthwiseImage& image) {
  HWY_DYNAMIC_DISPATCH(depthwise_forward_of)(plan, image);
}

void depthwise_weight_sums(const DirectPlan& plan, ElementType type, const void* x, const void* dy, float* sums) {
  HWY_DYNAMIC_DISPATCH(depthwise_sums_of)(plan, type, x, dy, sums);
}

}  // namespace lockstep::nn
#endif
