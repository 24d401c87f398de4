// SPDX-License-Identifier: Apache-2.0
// The loop over a parameter's memory that all kernels share. Included once for each instruction set, as Highway's own
// -inl.h files are.
#include <hwy/highway.h>

#include <cstdint>

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

// The order of operations is torch.optim's. Multiplications and additions are never fused (also by a compiler option,
// see CMakeLists.txt), so that processors with and without fused ones give the same bits.

/// Calls `update(d, memory, i)` for each vector of elements that starts at i, then for what is left one by one.
/// `update` is a copy on the stack: the stores to memory could change a constant that is behind a reference.
template <class Update>
HWY_INLINE void for_elements(const Memory memory, const Update update) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= memory.count; i += lanes) update(d, memory, i);
  for (; i < memory.count; ++i) update(hn::CappedTag<float, 1>(), memory, i);
}

/// scale * grad, and with weight decay as L2 regularisation + l2 * parameter.
template <class D>
HWY_INLINE hn::Vec<D> scaled_grad(D d, const Memory& memory, std::int64_t i, float scale) {
  return hn::Mul(hn::LoadU(d, memory.grad + i), hn::Set(d, scale));
}

template <class D>
HWY_INLINE hn::Vec<D> regularised(D d, hn::Vec<D> grad, hn::Vec<D> parameter, float l2) {
  return hn::Add(grad, hn::Mul(parameter, hn::Set(d, l2)));
}

/// a * old + b * value
template <class D>
HWY_INLINE hn::Vec<D> blend(D d, hn::Vec<D> old, float a, hn::Vec<D> value, float b) {
  return hn::Add(hn::Mul(old, hn::Set(d, a)), hn::Mul(value, hn::Set(d, b)));
}

/// a * old + b * value^2, rounded as torch's addcmul
template <class D>
HWY_INLINE hn::Vec<D> blend_square(D d, hn::Vec<D> old, float a, hn::Vec<D> value, float b) {
  return hn::Add(hn::Mul(old, hn::Set(d, a)), hn::Mul(hn::Mul(value, hn::Set(d, b)), value));
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#endif  // LOCKSTEP_OPTIM_ELEMENTS_INL_H
