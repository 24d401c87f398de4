// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/conv/thin_conv_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <algorithm>

#include "nn/conv/thin_conv_kernel.h"
#include "nn/vector/vector_memory-inl.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

// Pixels whose sums are in registers at once, so that no product waits for the previous one.
constexpr std::int64_t kPixels = 4;

/// The weights of one vector of channels, tap by tap.
template <class Tag>
struct Taps {
  Tag d;
  std::int64_t channel;
  hn::Vec<Tag> weights[9];
};

/// Computes `kCount` neighbouring pixels of one row.
template <std::int64_t kCount, class Tag, class T>
HWY_INLINE void pixels(const ThinConv& conv, const Taps<Tag>& taps, const float* padded, T* out) {
  const std::int64_t row = conv.width + 2;
  hn::Vec<Tag> sums[kCount];
  for (std::int64_t p = 0; p < kCount; ++p) sums[p] = hn::LoadU(taps.d, conv.bias + taps.channel);
  for (std::int64_t tap = 0; tap < 9; ++tap) {
    const float* at = padded + tap / 3 * row + tap % 3;
    for (std::int64_t p = 0; p < kCount; ++p) {
      sums[p] = hn::MulAdd(hn::Set(taps.d, at[p]), taps.weights[tap], sums[p]);
    }
  }
  for (std::int64_t p = 0; p < kCount; ++p) store(sums[p], taps.d, out + p * conv.channels + taps.channel);
}

template <class T>
void image(const ThinConv& conv, const float* padded, T* out) {
  for (std::int64_t y = 0; y < conv.height; ++y) {
    const float* from = padded + y * (conv.width + 2);
    T* to = out + y * conv.width * conv.channels;
    for_channels(conv.channels, [&](auto d, std::int64_t c) HWY_ATTR {
      Taps<decltype(d)> taps{.d = d, .channel = c, .weights = {}};
      for (std::int64_t tap = 0; tap < 9; ++tap)
        taps.weights[tap] = hn::LoadU(d, conv.weights + tap * conv.channels + c);
      std::int64_t x = 0;
      for (; x + kPixels <= conv.width; x += kPixels) pixels<kPixels>(conv, taps, from + x, to + x * conv.channels);
      for (; x < conv.width; ++x) pixels<1>(conv, taps, from + x, to + x * conv.channels);
    });
  }
}

/// Adds one row's sums to the image's sums, for the first vector of channels of `grad` and `sums`. Summing by row keeps
/// float's rounding error small.
template <class Tag, class T>
HWY_INLINE void row_sums(const ThinConv& conv, Tag d, const float* padded, const T* grad, const ThinConvSums& sums) {
  const std::int64_t row = conv.width + 2;
  hn::Vec<Tag> taps[9];
  for (auto& tap : taps) tap = hn::Zero(d);
  hn::Vec<Tag> all = hn::Zero(d);
  for (std::int64_t x = 0; x < conv.width; ++x) {
    const hn::Vec<Tag> g = load(d, grad + x * conv.channels);
    all = hn::Add(all, g);
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      taps[tap] = hn::MulAdd(hn::Set(d, padded[tap / 3 * row + x + tap % 3]), g, taps[tap]);
    }
  }
  for (std::int64_t tap = 0; tap < 9; ++tap) {
    add_to(taps[tap], d, sums.weights + tap * conv.channels);
  }
  add_to(all, d, sums.bias);
}

template <class T>
void image_sums(const ThinConv& conv, const float* padded, const T* grad, const ThinConvSums& sums) {
  std::fill_n(sums.weights, 9 * conv.channels, 0.0F);
  std::fill_n(sums.bias, conv.channels, 0.0F);
  for (std::int64_t y = 0; y < conv.height; ++y) {
    for_channels(conv.channels, [&](auto d, std::int64_t c) HWY_ATTR {
      row_sums(conv, d, padded + y * (conv.width + 2), grad + y * conv.width * conv.channels + c,
               {.weights = sums.weights + c, .bias = sums.bias + c});
    });
  }
}

void sums_float(const ThinConv& conv, const float* padded, const float* grad, const ThinConvSums& sums) {
  image_sums(conv, padded, grad, sums);
}
void sums_bfloat16(const ThinConv& conv, const float* padded, const std::uint16_t* grad, const ThinConvSums& sums) {
  image_sums(conv, padded, grad, sums);
}

void image_float(const ThinConv& conv, const float* padded, float* out) { image(conv, padded, out); }
void image_bfloat16(const ThinConv& conv, const float* padded, std::uint16_t* out) { image(conv, padded, out); }

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(image_float);
HWY_EXPORT(image_bfloat16);
HWY_EXPORT(sums_float);
HWY_EXPORT(sums_bfloat16);

void thin_conv(const ThinConv& conv, const float* padded, float* out) {
  HWY_DYNAMIC_DISPATCH(image_float)(conv, padded, out);
}

void thin_conv(const ThinConv& conv, const float* padded, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(image_bfloat16)(conv, padded, out);
}

void thin_conv_backward(const ThinConv& conv, const float* padded, const float* grad, const ThinConvSums& sums) {
  HWY_DYNAMIC_DISPATCH(sums_float)(conv, padded, grad, sums);
}

void thin_conv_backward(const ThinConv& conv, const float* padded, const std::uint16_t* grad,
                        const ThinConvSums& sums) {
  HWY_DYNAMIC_DISPATCH(sums_bfloat16)(conv, padded, grad, sums);
}

}  // namespace lockstep::nn
#endif
