// SPDX-License-Identifier: Apache-2.0
// The `Ops` (product-inl.h) for float32. Kernel files are compiled once for each instruction set, and include this file
// each time: hence the unusual include guard.
#if defined(LOCKSTEP_NN_FLOAT_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_NN_FLOAT_VECTORS_INL
#undef LOCKSTEP_NN_FLOAT_VECTORS_INL
#else
#define LOCKSTEP_NN_FLOAT_VECTORS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "nn/conv/packed_from.h"

#ifndef LOCKSTEP_KERNEL_INLINE
#define LOCKSTEP_KERNEL_INLINE HWY_INLINE
#define LOCKSTEP_KERNEL_ATTR HWY_ATTR
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Float {
  using Element = float;
  using Unit = float;
  using Tag = hn::CappedTag<float, 16>;
  using V = hn::Vec<Tag>;
  static constexpr int kGroup = 1;
  static constexpr int kLanes = HWY_MIN(16, HWY_LANES(float));
  // 6 rows of kVectors sums, and their operands, fit in the registers.
  static constexpr int kVectors = kLanes == 16 ? 4 : 2;

  static HWY_INLINE V load(const float* at) { return hn::LoadU(Tag(), at); }
  static HWY_INLINE void store(V v, float* at) { hn::StoreU(v, Tag(), at); }
  static HWY_INLINE V load_sums(const float* at) { return hn::LoadU(Tag(), at); }
  static HWY_INLINE void store_sums(V v, float* at) { hn::StoreU(v, Tag(), at); }
  static HWY_INLINE V load_units(const float* at) { return hn::LoadU(Tag(), at); }
  static HWY_INLINE V set(const float* at) { return hn::Set(Tag(), *at); }
  static HWY_INLINE V zero() { return hn::Zero(Tag()); }
  static HWY_INLINE V add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V sub(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V half(V v) { return hn::Mul(v, hn::Set(Tag(), 0.5F)); }
  static HWY_INLINE V times(V v, float factor) { return hn::Mul(v, hn::Set(Tag(), factor)); }
  /// Returns sum + v * factor.
  static HWY_INLINE V add_times(V sum, V v, float factor) { return hn::MulAdd(v, hn::Set(Tag(), factor), sum); }
  static HWY_INLINE V multiply_add(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
  static HWY_INLINE void interleave(const V (&v)[1], float* at) { hn::StoreU(v[0], Tag(), at); }
  /// Stores a vector of channels of one pixel, starting at `c`.
  static HWY_INLINE void join(const float* const (&from)[1], std::int64_t c, float* at) {
    hn::StoreU(hn::LoadU(Tag(), from[0] + c), Tag(), at);
  }
  static HWY_INLINE void join_part(const float* const (&from)[1], std::int64_t c, std::int64_t count, float* at) {
    for (std::int64_t i = 0; i < count; ++i) at[i] = from[0][c + i];
  }

  /// Packs weights. Columns beyond `columns` become 0.
  static HWY_INLINE void pack_columns(const PackedFrom& source, float* to, std::int64_t width) {
    if (source.column == 1 && source.columns == kLanes) {
      for (std::int64_t step = 0; step < source.steps; ++step) {
        hn::StoreU(hn::LoadU(Tag(), source.from + step * source.step), Tag(), to + step * width);
      }
      return;
    }
    for (std::int64_t step = 0; step < source.steps; ++step) {
      float* at = to + step * width;
      const float* from = source.from + step * source.step;
      for (std::int64_t c = 0; c < kLanes; ++c) at[c] = c < source.columns ? from[c * source.column] : 0.0F;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#endif
