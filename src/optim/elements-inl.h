// SPDX-License-Identifier: Apache-2.0
// The loop over a parameter's memory that all kernels share. It is included once for each instruction set, like
// Highway's own -inl.h files.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "optim/digest-inl.h"
#include "optim/kernels.h"

#if defined(LOCKSTEP_OPTIM_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_OPTIM_ELEMENTS_INL_H
#undef LOCKSTEP_OPTIM_ELEMENTS_INL_H
#else
#define LOCKSTEP_OPTIM_ELEMENTS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The order of operations is the same as in torch.optim. Multiplications and additions are never fused (a compiler
// option in CMakeLists.txt also forbids it), so that processors with and without fused multiply-add give the same bits.

/// Does the same as for_elements(), and hashes each vector of gradients and weights right after its update: the hash is
/// computed while the update waits for memory.
template <class Update>
HWY_INLINE void for_digested_elements(const Memory memory, const Update update) {
  const auto [counts, seed, first] = memory.digest;
  std::uint64_t gradients = 0;
  std::uint64_t weights = 0;
  std::int64_t i = 0;
  const auto one_by_one = [&](std::int64_t end) {
    for (; i < end; ++i) {
      update(hn::CappedTag<float, 1>(), memory, i);
      const auto place = static_cast<std::uint64_t>(first + i);
      gradients += hash_word(std::bit_cast<std::uint32_t>(memory.grad[i]), place, seed);
      weights += hash_word(std::bit_cast<std::uint32_t>(memory.parameter[i]), place, seed);
    }
  };
#if HWY_TARGET != HWY_SCALAR
  one_by_one(std::min(memory.count, first % 2));  // until a pair begins
  const hn::ScalableTag<float> d;
  const hn::Repartition<std::uint64_t, decltype(d)> pairs;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto odd = hn::Set(pairs, kOddHalves);
  const auto step = hn::Set(pairs, kDigestStep * static_cast<std::uint64_t>(lanes / 2));
  auto keys = keys_from(pairs, pair_key(seed, static_cast<std::uint64_t>(first + i) / 2));
  auto gradient_sums = hn::Zero(pairs);
  auto weight_sums = hn::Zero(pairs);
  for (; i + lanes <= memory.count; i += lanes) {
    update(d, memory, i);
    const auto factors = hn::Or(keys, odd);
    const auto first_factors = hn::ShiftRight<32>(factors);
    const auto gradient = hn::BitCast(pairs, hn::LoadU(d, memory.grad + i));
    const auto weight = hn::BitCast(pairs, hn::LoadU(d, memory.parameter + i));
    gradient_sums = hn::Add(gradient_sums, hash_pairs(pairs, gradient, keys, factors, first_factors));
    weight_sums = hn::Add(weight_sums, hash_pairs(pairs, weight, keys, factors, first_factors));
    keys = hn::Add(keys, step);
  }
  gradients += total(pairs, gradient_sums);
  weights += total(pairs, weight_sums);
#endif
  one_by_one(memory.count);
  counts->gradients += gradients;
  counts->weights += weights;
}

/// Calls `update(d, memory, i)` for each vector of elements that starts at i, then for each remaining element. `update`
/// is passed by value, because the compiler must assume that stores to memory change constants behind a reference.
template <class Update>
HWY_INLINE void for_elements(const Memory memory, const Update update) {
  if (memory.digest.counts != nullptr) return for_digested_elements(memory, update);
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= memory.count; i += lanes) update(d, memory, i);
  for (; i < memory.count; ++i) update(hn::CappedTag<float, 1>(), memory, i);
}

/// scaled_grad() returns scale * grad; regularised() adds weight decay as L2 regularisation, l2 * parameter.
template <class D>
HWY_INLINE hn::Vec<D> scaled_grad(D d, const Memory& memory, std::int64_t i, float scale) {
  return hn::Mul(hn::LoadU(d, memory.grad + i), hn::Set(d, scale));
}

template <class D>
HWY_INLINE hn::Vec<D> regularised(D d, hn::Vec<D> grad, hn::Vec<D> parameter, float l2) {
  return hn::Add(grad, hn::Mul(parameter, hn::Set(d, l2)));
}

/// Returns a * old + b * value.
template <class D>
HWY_INLINE hn::Vec<D> blend(D d, hn::Vec<D> old, float a, hn::Vec<D> value, float b) {
  return hn::Add(hn::Mul(old, hn::Set(d, a)), hn::Mul(value, hn::Set(d, b)));
}

/// Returns a * old + b * value^2, rounded as in torch's addcmul.
template <class D>
HWY_INLINE hn::Vec<D> blend_square(D d, hn::Vec<D> old, float a, hn::Vec<D> value, float b) {
  return hn::Add(hn::Mul(old, hn::Set(d, a)), hn::Mul(hn::Mul(value, hn::Set(d, b)), value));
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#endif  // LOCKSTEP_OPTIM_ELEMENTS_INL_H
