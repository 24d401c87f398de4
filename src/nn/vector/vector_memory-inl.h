// SPDX-License-Identifier: Apache-2.0
// Loads and stores vectors of float from and to float32 or bfloat16 (as its 16 bits). Kernel files are compiled once
// for each instruction set, and include this file each time: hence the unusual include guard.
#if defined(LOCKSTEP_NN_VECTOR_MEMORY_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_NN_VECTOR_MEMORY_INL
#undef LOCKSTEP_NN_VECTOR_MEMORY_INL
#else
#define LOCKSTEP_NN_VECTOR_MEMORY_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Tag>
HWY_INLINE hn::Vec<Tag> load(Tag d, const float* at) {
  return hn::LoadU(d, at);
}
/// Widens bfloat16 to float.
template <class Tag>
HWY_INLINE hn::Vec<Tag> widen([[maybe_unused]] Tag d, hn::Vec<hn::Rebind<std::uint16_t, Tag>> bits) {
  const hn::RebindToUnsigned<Tag> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
template <class Tag>
HWY_INLINE hn::Vec<Tag> load(Tag d, const std::uint16_t* at) {
  return widen(d, hn::LoadU(hn::Rebind<std::uint16_t, Tag>(), at));
}

/// Rounds to nearest, ties to even; NaN stays NaN.
template <class Tag>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, Tag>> narrow([[maybe_unused]] Tag d, hn::Vec<Tag> v) {
  const hn::Rebind<std::uint16_t, Tag> d16;
  const hn::RebindToUnsigned<Tag> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFF)), odd));
  const auto whole = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), hn::Set(d32, 0x7FC0), rounded);
  // Narrows as signed numbers, which every instruction set supports. The upper half is 0, so nothing saturates.
  return hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<Tag>(), whole));
}

template <class Tag>
HWY_INLINE void store(hn::Vec<Tag> v, Tag d, float* at) {
  hn::StoreU(v, d, at);
}
template <class Tag>
HWY_INLINE void store(hn::Vec<Tag> v, Tag d, std::uint16_t* at) {
  hn::StoreU(narrow(d, v), hn::Rebind<std::uint16_t, Tag>(), at);
}

/// Calls f(d, channel) for every vector of channels. The number of channels is a multiple of 8. At most 16 lanes.
template <class F>
HWY_INLINE void for_channels(std::int64_t channels, F f) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) f(d, c);
  const hn::CappedTag<float, 8> rest;
  for (; c < channels; c += static_cast<std::int64_t>(hn::Lanes(rest))) f(rest, c);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#endif
