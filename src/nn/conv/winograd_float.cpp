// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h) and chosen among at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/conv/winograd_float.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h: Highway asks for it.
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nn/conv/float_vectors-inl.h"
#include "nn/conv/winograd.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#include "nn/conv/product-inl.h"
#include "nn/conv/winograd-inl.h"

void pack_float(const Winograd& conv, const WinogradWeights& weights, float* packed) {
  pack<Float>(conv, weights, packed);
}
void forward_float(const Winograd& conv, const WinogradImages<float>& images, std::int64_t begin, std::int64_t end) {
  forward<Float>(conv, images, begin, end);
}
void weight_sums_float(const Winograd& conv, const WinogradPart<float>& of, std::int64_t begin, std::int64_t end,
                       float* sums) {
  weight_sums<Float>(conv, of, begin, end, sums);
}
void sum_pixels_float(const float* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  sum_pixels<Float>(dy, pixels, channels, sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(pack_float);
HWY_EXPORT(forward_float);
HWY_EXPORT(weight_sums_float);
HWY_EXPORT(sum_pixels_float);

void winograd_pack(const Winograd& conv, const WinogradWeights& weights, float* packed) {
  HWY_DYNAMIC_DISPATCH(pack_float)(conv, weights, packed);
}

void winograd_forward(const Winograd& conv, const WinogradImages<float>& images, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(forward_float)(conv, images, begin, end);
}

void winograd_weight_sums(const Winograd& conv, const WinogradPart<float>& of, std::int64_t begin, std::int64_t end,
                          float* sums) {
  HWY_DYNAMIC_DISPATCH(weight_sums_float)(conv, of, begin, end, sums);
}

void pixel_sums(const float* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  HWY_DYNAMIC_DISPATCH(sum_pixels_float)(dy, pixels, channels, sums);
}

std::int64_t winograd_summed_rows(const Winograd& conv, std::int64_t element_size) {
  constexpr std::int64_t kBytes = 1 << 20;
  const std::int64_t row = 4 * conv.tile_columns() * (conv.in + conv.out) * element_size;
  return std::max<std::int64_t>(1, kBytes / row);
}

namespace {

/// The 3x3 of one pair of channels from its 16 sums.
void unpack_pair(const float (&sums)[4][4], const WinogradWeights& to, float* at) {
  float down[3][4];
  for (int c = 0; c < 4; ++c) {
    const float both = 0.5F * (sums[1][c] + sums[2][c]);
    down[0][c] = sums[0][c] + both;
    down[1][c] = 0.5F * (sums[1][c] - sums[2][c]);
    down[2][c] = both + sums[3][c];
  }
  for (int r = 0; r < 3; ++r) {
    const float both = 0.5F * (down[r][1] + down[r][2]);
    at[r * to.row] = down[r][0] + both;
    at[r * to.row + to.column] = 0.5F * (down[r][1] - down[r][2]);
    at[r * to.row + 2 * to.column] = both + down[r][3];
  }
}

}  // namespace

void winograd_unpack(const Winograd& conv, const float* sums, const WinogradWeights& gradient) {
  auto* data = const_cast<float*>(gradient.data);
  for (std::int64_t i = 0; i < conv.in; ++i) {
    for (std::int64_t o = 0; o < conv.out; ++o) {
      float points[4][4];
      for (int p = 0; p < kWinogradPoints; ++p) points[p / 4][p % 4] = sums[p * conv.point_size() + i * conv.out + o];
      unpack_pair(points, gradient, data + o * gradient.out + i * gradient.in);
    }
  }
}

}  // namespace lockstep::nn
#endif
