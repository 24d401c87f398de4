// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/conv/winograd_float.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
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
#include "nn/conv/tile_transforms-inl.h"
#include "nn/conv/winograd-inl.h"

void pack_float(const Winograd& conv, const WinogradWeights& weights, float* packed) {
  conv.tile == 4 ? pack<Float, 4>(conv, weights, packed) : pack<Float, 2>(conv, weights, packed);
}
void forward_float(const Winograd& conv, const WinogradImages<float>& images, std::int64_t begin, std::int64_t end) {
  conv.tile == 4 ? forward<Float, 4>(conv, images, begin, end) : forward<Float, 2>(conv, images, begin, end);
}
void weight_sums_float(const Winograd& conv, const WinogradPart<float>& source, std::int64_t begin, std::int64_t end,
                       float* sums) {
  conv.tile == 4 ? weight_sums<Float, 4>(conv, source, begin, end, sums)
                 : weight_sums<Float, 2>(conv, source, begin, end, sums);
}
void unpack_float(const Winograd& conv, const float* sums, const WinogradWeights& gradient) {
  conv.tile == 4 ? unpack<Float, 4>(conv, sums, gradient) : unpack<Float, 2>(conv, sums, gradient);
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
HWY_EXPORT(unpack_float);
HWY_EXPORT(sum_pixels_float);

void winograd_pack(const Winograd& conv, const WinogradWeights& weights, float* packed) {
  HWY_DYNAMIC_DISPATCH(pack_float)(conv, weights, packed);
}

void winograd_forward(const Winograd& conv, const WinogradImages<float>& images, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(forward_float)(conv, images, begin, end);
}

void winograd_weight_sums(const Winograd& conv, const WinogradPart<float>& source, std::int64_t begin, std::int64_t end,
                          float* sums) {
  HWY_DYNAMIC_DISPATCH(weight_sums_float)(conv, source, begin, end, sums);
}

void pixel_sums(const float* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  HWY_DYNAMIC_DISPATCH(sum_pixels_float)(dy, pixels, channels, sums);
}

std::int64_t winograd_summed_rows(const Winograd& conv, std::int64_t element_size) {
  constexpr std::int64_t kBytes = 1 << 20;
  const std::int64_t row = conv.tile * conv.tile * conv.tile_columns() * (conv.in + conv.out) * element_size;
  // Tiles of 4x4 have 2.25 times the sums: updating them rarely saves more than keeping x and dy in the cache.
  constexpr std::int64_t kLargeTiles = 128;
  const std::int64_t fewest = conv.tile == 4 ? (kLargeTiles + conv.tile_columns() - 1) / conv.tile_columns() : 1;
  return std::max(fewest, kBytes / row);
}

void winograd_unpack(const Winograd& conv, const float* sums, const WinogradWeights& gradient) {
  HWY_DYNAMIC_DISPATCH(unpack_float)(conv, sums, gradient);
}

}  // namespace lockstep::nn
#endif
