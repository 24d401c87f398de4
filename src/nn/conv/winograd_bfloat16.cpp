// SPDX-License-Identifier: Apache-2.0
// bfloat16 by AVX-512's own products of it. Highway has no name for them in the version we build with, so this file has
// the processor's.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "lockstep/base/error.h"
#include "nn/conv/winograd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include <hwy/base.h>

#define LOCKSTEP_WINOGRAD_INLINE inline __attribute__((always_inline))
#define LOCKSTEP_WINOGRAD_ATTR __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
namespace lockstep::nn {
namespace {

struct Bfloat16 {
  using Element = std::uint16_t;
  using Unit = std::uint32_t;
  using V = __m512;
  static constexpr int kGroup = 2;
  static constexpr int kLanes = 16;
  static constexpr int kVectors = 4;
  // The mask for the masked forms: GCC warns that the others use a vector that was never set.
  static constexpr __mmask16 kAll = 0xFFFF;

  LOCKSTEP_WINOGRAD_INLINE static V load(const Element* at) {
    const __m512i wide = _mm512_maskz_cvtepu16_epi32(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, wide, 16));
  }
  LOCKSTEP_WINOGRAD_INLINE static void store(V v, Element* at) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), (__m256i)_mm512_cvtneps_pbh(v));
  }
  LOCKSTEP_WINOGRAD_INLINE static V load_sums(const float* at) { return _mm512_loadu_ps(at); }
  LOCKSTEP_WINOGRAD_INLINE static void store_sums(V v, float* at) { _mm512_storeu_ps(at, v); }
  LOCKSTEP_WINOGRAD_INLINE static V load_units(const Unit* at) { return _mm512_loadu_ps(at); }
  LOCKSTEP_WINOGRAD_INLINE static V set(const Unit* at) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*at)));
  }
  LOCKSTEP_WINOGRAD_INLINE static V zero() { return _mm512_setzero_ps(); }
  LOCKSTEP_WINOGRAD_INLINE static V add(V a, V b) { return _mm512_add_ps(a, b); }
  LOCKSTEP_WINOGRAD_INLINE static V sub(V a, V b) { return _mm512_sub_ps(a, b); }
  LOCKSTEP_WINOGRAD_INLINE static V half(V v) { return _mm512_mul_ps(v, _mm512_set1_ps(0.5F)); }
  LOCKSTEP_WINOGRAD_INLINE static V multiply_add(V a, V b, V sum) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
  /// Lane i of both, as the two halves of unit i.
  LOCKSTEP_WINOGRAD_INLINE static void interleave(const V (&v)[2], Unit* at) {
    alignas(64) static constexpr std::uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]);
    _mm512_storeu_si512(at, _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), both));
  }
};

#include "nn/conv/winograd-inl.h"

void pack_here(const Winograd& conv, const WinogradWeights& weights, std::uint16_t* packed) {
  pack<Bfloat16>(conv, weights, packed);
}
void forward_here(const Winograd& conv, const WinogradImages<std::uint16_t>& images, std::int64_t begin,
                  std::int64_t end) {
  forward<Bfloat16>(conv, images, begin, end);
}
void weight_sums_here(const Winograd& conv, const WinogradPart<std::uint16_t>& of, std::int64_t begin, std::int64_t end,
                      float* sums) {
  weight_sums<Bfloat16>(conv, of, begin, end, sums);
}
void sum_pixels_here(const std::uint16_t* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  sum_pixels<Bfloat16>(dy, pixels, channels, sums);
}

}  // namespace
}  // namespace lockstep::nn
HWY_POP_ATTRIBUTES

namespace lockstep::nn {

bool winograd_has_bfloat16() {
  static const bool has = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
}

bool processor_has_bfloat16_tiles() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAmxBfloat16 = 1U << 22;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBfloat16) != 0;
}

}  // namespace lockstep::nn

#else

namespace lockstep::nn {
namespace {

void pack_here(const Winograd&, const WinogradWeights&, std::uint16_t*) {}
void forward_here(const Winograd&, const WinogradImages<std::uint16_t>&, std::int64_t, std::int64_t) {}
void weight_sums_here(const Winograd&, const WinogradPart<std::uint16_t>&, std::int64_t, std::int64_t, float*) {}
void sum_pixels_here(const std::uint16_t*, std::int64_t, std::int64_t, float*) {}

}  // namespace

bool winograd_has_bfloat16() { return false; }
bool processor_has_bfloat16_tiles() { return false; }

}  // namespace lockstep::nn

#endif

namespace lockstep::nn {
namespace {

void check() {
  if (!winograd_has_bfloat16()) throw InternalError("this processor has no products of bfloat16");
}

}  // namespace

void winograd_pack(const Winograd& conv, const WinogradWeights& weights, std::uint16_t* packed) {
  check();
  pack_here(conv, weights, packed);
}

void winograd_forward(const Winograd& conv, const WinogradImages<std::uint16_t>& images, std::int64_t begin,
                      std::int64_t end) {
  check();
  forward_here(conv, images, begin, end);
}

void winograd_weight_sums(const Winograd& conv, const WinogradPart<std::uint16_t>& of, std::int64_t begin,
                          std::int64_t end, float* sums) {
  check();
  weight_sums_here(conv, of, begin, end, sums);
}

void pixel_sums(const std::uint16_t* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  check();
  sum_pixels_here(dy, pixels, channels, sums);
}

}  // namespace lockstep::nn
