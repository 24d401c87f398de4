// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h) and chosen among at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h: Highway asks for it.
#include <hwy/highway.h>

#include "optim/adamw_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The order of operations is torch.optim's. Multiplications and additions are never fused (also by a compiler option,
// see CMakeLists.txt), so that processors with and without fused ones give the same bits.
template <class D>
HWY_INLINE void update(D d, const AdamWMemory& memory, std::int64_t at, const AdamWStep& step) {
  const auto grad = hn::Mul(hn::LoadU(d, memory.grad + at), hn::Set(d, step.grad_scale));
  const auto exp_avg = hn::Add(hn::Mul(hn::LoadU(d, memory.exp_avg + at), hn::Set(d, step.beta1)),
                               hn::Mul(grad, hn::Set(d, step.one_minus_beta1)));
  const auto exp_avg_sq = hn::Add(hn::Mul(hn::LoadU(d, memory.exp_avg_sq + at), hn::Set(d, step.beta2)),
                                  hn::Mul(hn::Mul(grad, hn::Set(d, step.one_minus_beta2)), grad));
  const auto denominator =
      hn::Add(hn::Div(hn::Sqrt(exp_avg_sq), hn::Set(d, step.root_correction2)), hn::Set(d, step.eps));
  const auto decayed = hn::Mul(hn::LoadU(d, memory.parameter + at), hn::Set(d, step.decay));
  const auto moved = hn::Sub(decayed, hn::Div(hn::Mul(hn::Set(d, step.step_size), exp_avg), denominator));
  hn::StoreU(exp_avg, d, memory.exp_avg + at);
  hn::StoreU(exp_avg_sq, d, memory.exp_avg_sq + at);
  hn::StoreU(moved, d, memory.parameter + at);
}

void adamw(const AdamWMemory& memory, std::int64_t count, const AdamWStep& step) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) update(d, memory, i, step);
  for (; i < count; ++i) update(hn::CappedTag<float, 1>(), memory, i, step);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optim {

HWY_EXPORT(adamw);

void adamw_fused(const AdamWMemory& memory, std::int64_t count, const AdamWStep& step) {
  HWY_DYNAMIC_DISPATCH(adamw)(memory, count, step);
}

}  // namespace lockstep::optim
#endif
