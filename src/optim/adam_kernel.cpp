// SPDX-License-Identifier: Apache-2.0
// The kernels of AdamW, Adam, LAMB and Lion. This file is compiled once for each instruction set (foreach_target.h);
// the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adam_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include "optim/elements-inl.h"
#include "optim/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {

template <bool kL2, bool kAmsgrad>
struct AdamUpdate {
  AdamStep step;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    auto grad = scaled_grad(d, memory, i, step.grad_scale);
    if constexpr (kL2) grad = regularised(d, grad, parameter, step.l2);
    const auto exp_avg = blend(d, hn::LoadU(d, memory.state[0] + i), step.beta1, grad, step.one_minus_beta1);
    const auto exp_avg_sq = blend_square(d, hn::LoadU(d, memory.state[1] + i), step.beta2, grad, step.one_minus_beta2);
    auto divisor = exp_avg_sq;
    if constexpr (kAmsgrad) {
      const auto largest = hn::LoadU(d, memory.state[2] + i);
      divisor = hn::IfThenElse(hn::Lt(exp_avg_sq, largest), largest, exp_avg_sq);  // NaN stays NaN
      hn::StoreU(divisor, d, memory.state[2] + i);
    }
    const auto denominator =
        hn::Add(hn::Div(hn::Sqrt(divisor), hn::Set(d, step.root_correction2)), hn::Set(d, step.eps));
    const auto decayed = hn::Mul(parameter, hn::Set(d, step.decay));
    const auto moved = hn::Sub(decayed, hn::Div(hn::Mul(hn::Set(d, step.step_size), exp_avg), denominator));
    hn::StoreU(exp_avg, d, memory.state[0] + i);
    hn::StoreU(exp_avg_sq, d, memory.state[1] + i);
    hn::StoreU(moved, d, memory.parameter + i);
  }
};

template <bool kL2>
HWY_INLINE void adam_any(const Memory& memory, const AdamStep& step) {
  if (step.amsgrad) {
    for_elements(memory, AdamUpdate<kL2, true>{step});
  } else {
    for_elements(memory, AdamUpdate<kL2, false>{step});
  }
}

void adamw(const Memory& memory, const AdamStep& step) { adam_any<false>(memory, step); }
void adam_l2(const Memory& memory, const AdamStep& step) { adam_any<true>(memory, step); }

template <class D>
HWY_INLINE hn::Vec<D> lamb_direction(D d, const LambStep& step, hn::Vec<D> exp_avg, hn::Vec<D> exp_avg_sq,
                                     hn::Vec<D> parameter) {
  const auto denominator =
      hn::Add(hn::Div(hn::Sqrt(exp_avg_sq), hn::Set(d, step.adam.root_correction2)), hn::Set(d, step.adam.eps));
  const auto adam = hn::Div(hn::Mul(exp_avg, hn::Set(d, step.over_correction1)), denominator);
  return hn::Add(adam, hn::Mul(parameter, hn::Set(d, step.weight_decay)));
}

struct LambMoments {
  LambStep step;
  float* direction;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const AdamStep& adam = step.adam;
    const auto grad = scaled_grad(d, memory, i, adam.grad_scale);
    const auto exp_avg = blend(d, hn::LoadU(d, memory.state[0] + i), adam.beta1, grad, adam.one_minus_beta1);
    const auto exp_avg_sq = blend_square(d, hn::LoadU(d, memory.state[1] + i), adam.beta2, grad, adam.one_minus_beta2);
    hn::StoreU(exp_avg, d, memory.state[0] + i);
    hn::StoreU(exp_avg_sq, d, memory.state[1] + i);
    hn::StoreU(lamb_direction(d, step, exp_avg, exp_avg_sq, hn::LoadU(d, memory.parameter + i)), d, direction + i);
  }
};

struct LambMove {
  LambStep step;
  float rate;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    const auto direction =
        lamb_direction(d, step, hn::LoadU(d, memory.state[0] + i), hn::LoadU(d, memory.state[1] + i), parameter);
    hn::StoreU(hn::Sub(parameter, hn::Mul(hn::Set(d, rate), direction)), d, memory.parameter + i);
  }
};

void lamb_first(const Memory& memory, const LambStep& step, float* direction) {
  for_elements(memory, LambMoments{step, direction});
}
void lamb_second(const Memory& memory, const LambStep& step, float rate) { for_elements(memory, LambMove{step, rate}); }

struct LionUpdate {
  LionStep step;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto grad = scaled_grad(d, memory, i, step.grad_scale);
    const auto exp_avg = hn::LoadU(d, memory.state[0] + i);
    const auto aim = blend(d, exp_avg, step.beta1, grad, step.one_minus_beta1);
    const auto zero = hn::Zero(d);
    const auto one = hn::Set(d, 1.0F);
    // NaN is neither above nor below zero, and stays NaN.
    const auto sign = hn::IfThenElse(hn::Gt(aim, zero), one, hn::IfThenElse(hn::Lt(aim, zero), hn::Neg(one), aim));
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    // Avoids parameter * (1 - lr * weight_decay): that factor's rounding would accumulate over the steps.
    const auto direction = hn::Add(sign, hn::Mul(parameter, hn::Set(d, step.weight_decay)));
    hn::StoreU(blend(d, exp_avg, step.beta2, grad, step.one_minus_beta2), d, memory.state[0] + i);
    hn::StoreU(hn::Sub(parameter, hn::Mul(hn::Set(d, step.lr), direction)), d, memory.parameter + i);
  }
};

void lion(const Memory& memory, const LionStep& step) { for_elements(memory, LionUpdate{step}); }

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optim {

HWY_EXPORT(adamw);
HWY_EXPORT(adam_l2);
HWY_EXPORT(lamb_first);
HWY_EXPORT(lamb_second);
HWY_EXPORT(lion);

void adamw_update(const Memory& memory, const AdamStep& step) { HWY_DYNAMIC_DISPATCH(adamw)(memory, step); }
void adam_l2_update(const Memory& memory, const AdamStep& step) { HWY_DYNAMIC_DISPATCH(adam_l2)(memory, step); }
void lamb_moments(const Memory& memory, const LambStep& step, float* direction) {
  HWY_DYNAMIC_DISPATCH(lamb_first)(memory, step, direction);
}
void lamb_move(const Memory& memory, const LambStep& step, float rate) {
  HWY_DYNAMIC_DISPATCH(lamb_second)(memory, step, rate);
}
void lion_update(const Memory& memory, const LionStep& step) { HWY_DYNAMIC_DISPATCH(lion)(memory, step); }

}  // namespace lockstep::optim
#endif
