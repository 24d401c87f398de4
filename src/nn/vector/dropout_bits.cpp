// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/vector/dropout_bits.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "nn/vector/dropout_bits.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::CappedTag<std::uint32_t, 16>;
using V32 = hn::Vec<D32>;

struct Words {
  V32 x0, x1, x2, x3;
};

struct Product {
  V32 low, high;
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Product multiply(D32 d, V32 x, std::uint32_t multiplier) {
  const std::uint64_t product = std::uint64_t{hn::GetLane(x)} * multiplier;
  return {.low = hn::Set(d, static_cast<std::uint32_t>(product)),
          .high = hn::Set(d, static_cast<std::uint32_t>(product >> 32))};
}
#else
HWY_INLINE Product multiply(D32 d, V32 x, std::uint32_t multiplier) {
  const hn::RepartitionToWide<D32> d64;
  const auto factor = hn::Set(d, multiplier);
  const auto even = hn::MulEven(x, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, x))), factor);
  const auto lower = hn::Set(d64, 0xFFFFFFFFULL);
  return {.low = hn::BitCast(d, hn::Or(hn::And(even, lower), hn::ShiftLeft<32>(odd))),
          .high = hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::AndNot(lower, odd)))};
}
#endif

/// Returns the four words of counter `counter` + i in lane i.
HWY_INLINE Words philox(D32 d, std::uint64_t counter, std::uint64_t seed) {
  Words w{hn::Iota(d, static_cast<std::uint32_t>(counter)), hn::Set(d, static_cast<std::uint32_t>(counter >> 32)),
          hn::Zero(d), hn::Zero(d)};
  auto key0 = static_cast<std::uint32_t>(seed);
  auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Product a = multiply(d, w.x0, 0xD2511F53U);
    const Product b = multiply(d, w.x2, 0xCD9E8D57U);
    w = {hn::Xor(hn::Xor(b.high, w.x1), hn::Set(d, key0)), b.low, hn::Xor(hn::Xor(a.high, w.x3), hn::Set(d, key1)),
         a.low};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return w;
}

/// Keeps half of the elements: every bit of the stream belongs to one element.
void fill_half(std::uint8_t* bits, std::int64_t begin, std::int64_t end, std::uint64_t seed) {
  const D32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN std::uint32_t words[64];
  for (std::int64_t block = begin; block < end; block += lanes) {
    const Words w = philox(d, static_cast<std::uint64_t>(block), seed);
    hn::StoreInterleaved4(w.x0, w.x1, w.x2, w.x3, d, words);
    const std::int64_t blocks = end - block < lanes ? end - block : lanes;
    std::memcpy(bits + 16 * block, words, static_cast<std::size_t>(16 * blocks));
  }
}

/// Sets a bit for each half of a word that is below the threshold, at `place` and the next place.
HWY_INLINE V32 two_bits(D32 d, V32 word, V32 threshold, int place) {
  const auto low = hn::And(word, hn::Set(d, 0xFFFFU));
  const auto high = hn::ShiftRight<16>(word);
  const auto one = hn::Set(d, 1U << place);
  const auto two = hn::Set(d, 2U << place);
  return hn::Or(hn::IfThenElseZero(hn::Lt(low, threshold), one), hn::IfThenElseZero(hn::Lt(high, threshold), two));
}

/// Keeps any fraction of the elements: 16 bits of the stream per element, so 8 elements per counter.
void fill_share(std::uint8_t* bits, std::int64_t begin, std::int64_t end, std::uint64_t seed, std::uint32_t threshold) {
  const D32 d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const hn::Rebind<std::uint8_t, D32> d8;
  HWY_ALIGN std::uint8_t bytes[16];
  const auto limit = hn::Set(d, threshold);
  for (std::int64_t counter = 16 * begin; counter < 16 * end; counter += lanes) {
    const Words w = philox(d, static_cast<std::uint64_t>(counter), seed);
    const auto byte = hn::Or(hn::Or(two_bits(d, w.x0, limit, 0), two_bits(d, w.x1, limit, 2)),
                             hn::Or(two_bits(d, w.x2, limit, 4), two_bits(d, w.x3, limit, 6)));
    hn::StoreU(hn::TruncateTo(d8, byte), d8, bytes);
    std::memcpy(bits + counter, bytes, static_cast<std::size_t>(lanes));
  }
}

void fill(std::uint8_t* bits, std::int64_t begin, std::int64_t end, std::uint64_t seed, double keep) {
  if (keep == 0.5) return fill_half(bits, begin, end, seed);
  fill_share(bits, begin, end, seed, static_cast<std::uint32_t>(std::lround(keep * 65536)));
}

void block(std::uint64_t counter, std::uint64_t seed, std::uint32_t* words) {
  const D32 d;
  const Words w = philox(d, counter, seed);
  words[0] = hn::GetLane(w.x0);
  words[1] = hn::GetLane(w.x1);
  words[2] = hn::GetLane(w.x2);
  words[3] = hn::GetLane(w.x3);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(fill);
HWY_EXPORT(block);

std::int64_t dropout_bytes(std::int64_t count) { return (count + 127) / 128 * 16 + 4; }

void fill_dropout_bits(std::uint8_t* bits, std::int64_t begin_block, std::int64_t end_block, std::uint64_t seed,
                       double keep) {
  HWY_DYNAMIC_DISPATCH(fill)(bits, begin_block, end_block, seed, keep);
}

void philox_block(std::uint64_t counter, std::uint64_t seed, std::uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(block)(counter, seed, words);
}

}  // namespace lockstep::nn
#endif
