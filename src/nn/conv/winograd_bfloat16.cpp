// SPDX-License-Identifier: Apache-2.0
// Winograd with AVX-512's bfloat16 products. Our version of Highway lacks them, so this file uses intrinsics.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "lockstep/base/error.h"
#include "nn/conv/winograd.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include "nn/conv/bfloat16_vectors.h"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")
namespace lockstep::nn {
namespace {

#include "nn/conv/product-inl.h"
#include "nn/conv/tile_transforms-inl.h"
#include "nn/conv/winograd-inl.h"

void pack_here(const Winograd& conv, const WinogradWeights& weights, std::uint16_t* packed) {
  pack<Bfloat16, 2>(conv, weights, packed);
}
void forward_here(const Winograd& conv, const WinogradImages<std::uint16_t>& images, std::int64_t begin,
                  std::int64_t end) {
  forward<Bfloat16, 2>(conv, images, begin, end);
}
void weight_sums_here(const Winograd& conv, const WinogradPart<std::uint16_t>& source, std::int64_t begin,
                      std::int64_t end, float* sums) {
  weight_sums<Bfloat16, 2>(conv, source, begin, end, sums);
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
  if (!winograd_has_bfloat16()) throw InternalError("this processor has no bfloat16 instructions");
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

void winograd_weight_sums(const Winograd& conv, const WinogradPart<std::uint16_t>& source, std::int64_t begin,
                          std::int64_t end, float* sums) {
  check();
  weight_sums_here(conv, source, begin, end, sums);
}

void pixel_sums(const std::uint16_t* dy, std::int64_t pixels, std::int64_t channels, float* sums) {
  check();
  sum_pixels_here(dy, pixels, channels, sums);
}

}  // namespace lockstep::nn
