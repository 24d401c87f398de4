// SPDX-License-Identifier: Apache-2.0
// The element-wise operations that the kernels share. Kernel files are compiled once for each instruction set, and
// include this file each time: hence the unusual include guard.
#if defined(LOCKSTEP_NN_VECTOR_OPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_NN_VECTOR_OPS_INL
#undef LOCKSTEP_NN_VECTOR_OPS_INL
#else
#define LOCKSTEP_NN_VECTOR_OPS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "nn/vector/vector_memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;

/// Returns a mask of the elements, starting at `index`, that dropout keeps. A vector has at most 16 lanes: 32 bits
/// suffice.
template <class Tag>
HWY_INLINE hn::Mask<Tag> kept(Tag d, const std::uint8_t* bits, std::int64_t index) {
  std::uint32_t word;
  std::memcpy(&word, bits + index / 8, sizeof(word));
  const hn::RebindToUnsigned<Tag> d32;
  const auto lane = hn::Shl(hn::Set(d32, 1), hn::Iota(d32, 0));
  const auto lane_bits = hn::And(hn::Set(d32, word >> (index % 8)), lane);
  return hn::RebindMask(d, hn::Ne(lane_bits, hn::Zero(d32)));
}

/// ReLU that keeps NaN, so that a NaN is not hidden as 0 before it reaches the loss.
template <class Tag>
HWY_INLINE hn::Vec<Tag> relu(Tag d, hn::Vec<Tag> y) {
  return hn::IfThenZeroElse(hn::Le(y, hn::Zero(d)), y);
}

template <class Tag>
HWY_INLINE void add_to(hn::Vec<Tag> v, Tag d, float* at) {
  hn::StoreU(hn::Add(hn::LoadU(d, at), v), d, at);
}

/// Memory of a whole vector.
struct Whole {
  template <class T>
  HWY_INLINE hn::Vec<Floats> get(Floats d, const T* at) const {
    return load(d, at);
  }
  template <class T>
  HWY_INLINE void put(hn::Vec<Floats> v, Floats d, T* at) const {
    store(v, d, at);
  }
  HWY_INLINE hn::Vec<Floats> only([[maybe_unused]] Floats d, hn::Vec<Floats> v) const { return v; }
  HWY_INLINE hn::Vec<Floats> or_else([[maybe_unused]] Floats d, hn::Vec<Floats> v, hn::Vec<Floats> /*other*/) const {
    return v;
  }
};

/// Memory of the first `count` lanes of a vector: nothing after them is read or written. The other lanes read as zeros.
struct Part {
  std::size_t count;

#if HWY_MEM_OPS_MIGHT_FAULT
  template <class T>
  HWY_INLINE hn::Vec<Floats> get(Floats d, const T* at) const {
    HWY_ALIGN T copy[16] = {};
    std::memcpy(copy, at, count * sizeof(T));
    return load(d, copy);
  }
  template <class T>
  HWY_INLINE void put(hn::Vec<Floats> v, Floats d, T* at) const {
    HWY_ALIGN T copy[16];
    store(v, d, copy);
    std::memcpy(at, copy, count * sizeof(T));
  }
#else
  HWY_INLINE hn::Vec<Floats> get(Floats d, const float* at) const {
    return hn::MaskedLoad(hn::FirstN(d, count), d, at);
  }
  HWY_INLINE hn::Vec<Floats> get(Floats d, const std::uint16_t* at) const {
    const hn::Rebind<std::uint16_t, Floats> d16;
    return widen(d, hn::MaskedLoad(hn::FirstN(d16, count), d16, at));
  }
  HWY_INLINE void put(hn::Vec<Floats> v, Floats d, float* at) const {
    hn::BlendedStore(v, hn::FirstN(d, count), d, at);
  }
  HWY_INLINE void put(hn::Vec<Floats> v, Floats d, std::uint16_t* at) const {
    const hn::Rebind<std::uint16_t, Floats> d16;
    hn::BlendedStore(narrow(d, v), hn::FirstN(d16, count), d16, at);
  }
#endif
  HWY_INLINE hn::Vec<Floats> only(Floats d, hn::Vec<Floats> v) const {
    return hn::IfThenElseZero(hn::FirstN(d, count), v);
  }
  HWY_INLINE hn::Vec<Floats> or_else(Floats d, hn::Vec<Floats> v, hn::Vec<Floats> other) const {
    return hn::IfThenElse(hn::FirstN(d, count), v, other);
  }
};

/// Calls f(d, index, memory) for every vector of elements from `begin` to `end`; the last may be partial.
template <class F>
HWY_INLINE void for_span(std::int64_t begin, std::int64_t end, F f) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) f(d, i, Whole());
  if (i < end) f(d, i, Part{static_cast<std::size_t>(end - i)});
}

HWY_INLINE float sum_of(Floats d, hn::Vec<Floats> v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#endif
