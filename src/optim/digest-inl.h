// SPDX-License-Identifier: Apache-2.0
// The hash of a vector of words. It is included once for each instruction set, like Highway's own -inl.h files.
#include <hwy/highway.h>

#include <cstdint>

#include "optim/digest_hash.h"

#if defined(LOCKSTEP_OPTIM_DIGEST_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_OPTIM_DIGEST_INL_H
#undef LOCKSTEP_OPTIM_DIGEST_INL_H
#else
#define LOCKSTEP_OPTIM_DIGEST_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR  // HWY_SCALAR cannot hold two words in one lane

/// Returns the keys of a vector of pairs, one per lane, starting with `first_key`.
template <class D>
HWY_INLINE hn::Vec<D> keys_from(D d, std::uint64_t first_key) {
  HWY_ALIGN std::uint64_t keys[hn::MaxLanes(d)];
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) keys[lane] = pair_key(first_key, lane);
  return hn::Load(d, keys);
}

/// Returns for each lane the sum of the hashes that hash_word() returns for the two words of its pair. `factors` is
/// `keys` with both halves odd: the lower half is the second word's factor; the upper half, shifted down, is
/// `first_factors`.
template <class D>
HWY_INLINE hn::Vec<D> hash_pairs(D /*d*/, hn::Vec<D> words, hn::Vec<D> keys, hn::Vec<D> factors,
                                 hn::Vec<D> first_factors) {
  const hn::Repartition<std::uint32_t, D> d32;
  const auto mixed = hn::Xor(words, keys);
  const auto low = hn::MulEven(hn::BitCast(d32, mixed), hn::BitCast(d32, first_factors));
  const auto high = hn::MulEven(hn::BitCast(d32, hn::ShiftRight<32>(mixed)), hn::BitCast(d32, factors));
  return hn::Add(hn::Xor(low, hn::ShiftRight<kDigestShift>(low)), hn::Xor(high, hn::ShiftRight<kDigestShift>(high)));
}

template <class D>
HWY_INLINE std::uint64_t total(D d, hn::Vec<D> sums) {
  HWY_ALIGN std::uint64_t each[hn::MaxLanes(d)];
  hn::Store(sums, d, each);
  std::uint64_t sum = 0;
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) sum += each[lane];
  return sum;
}

constexpr std::uint64_t kOddHalves = (std::uint64_t{1} << 32U) | 1U;

#endif

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#endif  // LOCKSTEP_OPTIM_DIGEST_INL_H
