// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/dense/scale_shift_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include "nn/dense/scale_shift_kernel.h"
#include "nn/vector/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::nn {
namespace HWY_NAMESPACE {

template <class T>
void scale_shift_run(const ScaleShiftSpan& span, float scale, float shift, T* out) {
  const T* x = static_cast<const T*>(span.x);
  for_span(span.begin, span.end, [&](Floats d, std::int64_t i, auto memory) HWY_ATTR {
    memory.put(hn::MulAdd(memory.get(d, x + i), hn::Set(d, scale), hn::Set(d, shift)), d, out + i);
  });
}

template <class T>
ScaleShiftSums scale_shift_run_backward(const ScaleShiftSpan& span, float scale, const T* grad, T* grad_in) {
  const T* x = static_cast<const T*>(span.x);
  const Floats all;
  auto times_x = hn::Zero(all);
  auto plain = hn::Zero(all);
  for_span(span.begin, span.end, [&](Floats d, std::int64_t i, auto memory) HWY_ATTR {
    const auto g = memory.get(d, grad + i);
    times_x = hn::MulAdd(g, memory.get(d, x + i), times_x);
    plain = hn::Add(plain, g);
    if (grad_in != nullptr) memory.put(hn::Mul(g, hn::Set(d, scale)), d, grad_in + i);
  });
  return {.times_x = sum_of(all, times_x), .plain = sum_of(all, plain)};
}

void scale_shift_forward_of(const ScaleShiftSpan& span, float scale, float shift, void* out) {
  if (span.type == ElementType::kFloat) return scale_shift_run(span, scale, shift, static_cast<float*>(out));
  scale_shift_run(span, scale, shift, static_cast<std::uint16_t*>(out));
}

ScaleShiftSums scale_shift_backward_of(const ScaleShiftSpan& span, float scale, const void* grad, void* grad_in) {
  if (span.type == ElementType::kFloat) {
    return scale_shift_run_backward(span, scale, static_cast<const float*>(grad), static_cast<float*>(grad_in));
  }
  return scale_shift_run_backward(span, scale, static_cast<const std::uint16_t*>(grad),
                                  static_cast<std::uint16_t*>(grad_in));
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::nn
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::nn {

HWY_EXPORT(scale_shift_forward_of);
HWY_EXPORT(scale_shift_backward_of);

void scale_shift_forward(const ScaleShiftSpan& span, float scale, float shift, void* out) {
  HWY_DYNAMIC_DISPATCH(scale_shift_forward_of)(span, scale, shift, out);
}

ScaleShiftSums scale_shift_backward(const ScaleShiftSpan& span, float scale, const void* grad, void* grad_in) {
  return HWY_DYNAMIC_DISPATCH(scale_shift_backward_of)(span, scale, grad, grad_in);
}

}  // namespace lockstep::nn
#endif
