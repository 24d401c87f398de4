// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/digest_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include "optim/digest-inl.h"
#include "optim/digest.h"
#include "optim/digest_hash.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Hashes the whole vectors among `pairs` pairs of words, starting with the key `first_key`. A vector has a pair in
/// each lane, and each word gets the hash that hash_word() returns. `done` becomes the number of hashed pairs.
#if HWY_TARGET == HWY_SCALAR
std::uint64_t hash_vectors(const std::uint32_t* /*words*/, std::int64_t /*pairs*/, std::uint64_t /*key*/,
                           std::int64_t& done) {
  done = 0;
  return 0;
}
#else
std::uint64_t hash_vectors(const std::uint32_t* words, std::int64_t pairs, std::uint64_t first_key,
                           std::int64_t& done) {
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto odd = hn::Set(d, kOddHalves);
  const auto step = hn::Set(d, kDigestStep * static_cast<std::uint64_t>(lanes));
  auto keys = keys_from(d, first_key);
  auto sums = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    const auto factors = hn::Or(keys, odd);
    const auto pair = hn::BitCast(d, hn::LoadU(d32, words + 2 * i));
    sums = hn::Add(sums, hash_pairs(d, pair, keys, factors, hn::ShiftRight<32>(factors)));
    keys = hn::Add(keys, step);
  }
  done = i;
  return total(d, sums);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optim {

HWY_EXPORT(hash_vectors);

std::uint64_t digest_words(const Words& words, std::uint64_t seed) {
  const auto* data = static_cast<const std::uint32_t*>(words.data);
  auto first = static_cast<std::uint64_t>(words.first);
  std::int64_t count = words.count;
  std::uint64_t total = 0;
  if (count > 0 && first % 2 == 1) {  // the part begins within a pair
    total += hash_word(*data, first, seed);
    ++data, ++first, --count;
  }
  std::int64_t done = 0;
  total += HWY_DYNAMIC_DISPATCH(hash_vectors)(data, count / 2, pair_key(seed, first / 2), done);
  for (std::int64_t i = 2 * done; i < count; ++i)
    total += hash_word(data[i], first + static_cast<std::uint64_t>(i), seed);
  return total;
}

}  // namespace lockstep::optim
#endif
