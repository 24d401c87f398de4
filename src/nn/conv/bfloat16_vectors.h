// SPDX-License-Identifier: Apache-2.0
// The `Ops` (product-inl.h) for bfloat16 products in AVX-512. Our version of Highway lacks them, so this file uses
// intrinsics.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>

#include <hwy/base.h>

#include <cstddef>
#include <cstdint>

#include "nn/conv/packed_from.h"

#define LOCKSTEP_KERNEL_INLINE inline __attribute__((always_inline))
#define LOCKSTEP_KERNEL_ATTR __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace lockstep::nn {
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16");

// Masked intrinsics avoid GCC's warning that unmasked ones use an uninitialised vector.
constexpr __mmask16 kAllLanes = 0xFFFF;

/// Transposes 16 x 16 lanes: moves lane i of row j to lane j of row i.
LOCKSTEP_KERNEL_INLINE void transpose_units(__m512i (&rows)[16]) {
  __m512i half[16];
  for (int i = 0; i < 16; i += 2) {
    half[i] = _mm512_maskz_unpacklo_epi32(kAllLanes, rows[i], rows[i + 1]);
    half[i + 1] = _mm512_maskz_unpackhi_epi32(kAllLanes, rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {  // rows[i + k]: column k of each 128-bit lane, for rows i to i + 3
    rows[i] = _mm512_maskz_unpacklo_epi64(0xFF, half[i], half[i + 2]);
    rows[i + 1] = _mm512_maskz_unpackhi_epi64(0xFF, half[i], half[i + 2]);
    rows[i + 2] = _mm512_maskz_unpacklo_epi64(0xFF, half[i + 1], half[i + 3]);
    rows[i + 3] = _mm512_maskz_unpackhi_epi64(0xFF, half[i + 1], half[i + 3]);
  }
  for (int k = 0; k < 4; ++k) {
    const __m512i a = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[k], rows[4 + k], 0x88);
    const __m512i b = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[k], rows[4 + k], 0xDD);
    const __m512i c = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[8 + k], rows[12 + k], 0x88);
    const __m512i d = _mm512_maskz_shuffle_i32x4(kAllLanes, rows[8 + k], rows[12 + k], 0xDD);
    half[k] = _mm512_maskz_shuffle_i32x4(kAllLanes, a, c, 0x88);
    half[4 + k] = _mm512_maskz_shuffle_i32x4(kAllLanes, b, d, 0x88);
    half[8 + k] = _mm512_maskz_shuffle_i32x4(kAllLanes, a, c, 0xDD);
    half[12 + k] = _mm512_maskz_shuffle_i32x4(kAllLanes, b, d, 0xDD);
  }
  for (int i = 0; i < 16; ++i) rows[i] = half[i];
}

/// Loads one element of the sum for a vector of columns.
LOCKSTEP_KERNEL_INLINE __m512 gather_column(const PackedFrom& source, std::int64_t step) {
  const float* from = source.from + step * source.step;
  if (source.column == 1 && source.columns == 16) return _mm512_loadu_ps(from);
  float lanes[16] = {};
  for (std::int64_t c = 0; c < source.columns; ++c) lanes[c] = from[c * source.column];
  return _mm512_loadu_ps(lanes);
}

struct Bfloat16 {
  using Element = std::uint16_t;
  using Unit = std::uint32_t;
  using V = __m512;
  static constexpr int kGroup = 2;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 4;
  static constexpr __mmask16 kAll = kAllLanes;

  LOCKSTEP_KERNEL_INLINE static V load(const Element* at) {
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
  }
  LOCKSTEP_KERNEL_INLINE static void store(V v, Element* at) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), (__m256i)_mm512_cvtneps_pbh(v));
  }
  LOCKSTEP_KERNEL_INLINE static V load_sums(const float* at) { return _mm512_loadu_ps(at); }
  LOCKSTEP_KERNEL_INLINE static void store_sums(V v, float* at) { _mm512_storeu_ps(at, v); }
  LOCKSTEP_KERNEL_INLINE static V load_units(const Unit* at) { return _mm512_loadu_ps(at); }
  LOCKSTEP_KERNEL_INLINE static V set(const Unit* at) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*at)));
  }
  LOCKSTEP_KERNEL_INLINE static V zero() { return _mm512_setzero_ps(); }
  LOCKSTEP_KERNEL_INLINE static V add(V a, V b) { return _mm512_add_ps(a, b); }
  LOCKSTEP_KERNEL_INLINE static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  LOCKSTEP_KERNEL_INLINE static V half(V v) { return _mm512_mul_ps(v, _mm512_set1_ps(0.5F)); }
  LOCKSTEP_KERNEL_INLINE static V multiply_add(V a, V b, V sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  /// Rounds both vectors to bfloat16, and stores lane i of each as the two halves of unit i.
  LOCKSTEP_KERNEL_INLINE static void interleave(const V (&v)[2], Unit* at) {
    alignas(64) static constexpr std::uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]);
    _mm512_storeu_si512(at, _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both));
  }
  /// Stores a vector of channels of each of two pixels, starting at channel `c`, as the two halves of units.
  LOCKSTEP_KERNEL_INLINE static void join(const Element* const (&from)[2], std::int64_t c, Unit* at) {
    const auto wide = [&](const Element* pixel) LOCKSTEP_KERNEL_ATTR {
      return _mm512_maskz_cvtepu16_epi32(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pixel + c)));
    };
    _mm512_storeu_si512(at, _mm512_or_si512(wide(from[0]), _mm512_maskz_slli_epi32(kAll, wide(from[1]), 16)));
  }
  /// Does the same as join() for the first `count` lanes only. Reads and writes nothing beyond them.
  LOCKSTEP_KERNEL_INLINE static void join_part(const Element* const (&from)[2], std::int64_t c, std::int64_t count,
                                               Unit* at) {
    if (count == 4) {  // the count at every tap of an image that is padded to four channels
      const auto low = [&](const Element* pixel) LOCKSTEP_KERNEL_ATTR {
        return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixel + c));
      };
      _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm_unpacklo_epi16(low(from[0]), low(from[1])));
      return;
    }
    const auto lanes = static_cast<__mmask16>((1U << count) - 1);
    const auto wide = [&](const Element* pixel) LOCKSTEP_KERNEL_ATTR {
      return _mm512_maskz_cvtepu16_epi32(kAll, _mm256_maskz_loadu_epi16(lanes, pixel + c));
    };
    _mm512_mask_storeu_epi32(at, lanes,
                             _mm512_or_si512(wide(from[0]), _mm512_maskz_slli_epi32(kAll, wide(from[1]), 16)));
  }

  /// Packs weights into bfloat16 units. Columns beyond `columns` become 0.
  LOCKSTEP_KERNEL_INLINE static void pack_columns(const PackedFrom& source, Unit* to, std::int64_t width) {
    std::int64_t step = 0;
    if (source.columns == kLanes && source.step == 1) {
      for (; step + 16 <= source.steps; step += 16) {
        __m512i rows[16];  // 16 units, which are 32 steps, of each column
        for (int c = 0; c < 16; ++c) {
          const float* at = source.from + c * source.column + 2 * step;
          rows[c] = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(at + 16), _mm512_loadu_ps(at));
        }
        transpose_units(rows);
        for (int s = 0; s < 16; ++s) _mm512_storeu_si512(to + (step + s) * width, rows[s]);
      }
    }
    for (; step < source.steps; ++step) {
      V group[2];
      for (int e = 0; e < 2; ++e) group[e] = gather_column(source, 2 * step + e);
      interleave(group, to + step * width);
    }
  }
};

HWY_POP_ATTRIBUTES
}  // namespace lockstep::nn
#endif
