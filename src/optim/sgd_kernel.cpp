// SPDX-License-Identifier: Apache-2.0
// The kernels of SGD, LARS, RMSprop and Adagrad, and the sum of squares for a norm. This file is compiled once for each
// instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/sgd_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include "optim/elements-inl.h"
#include "optim/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {

enum class SgdKind { kPlain, kMomentum, kNesterov };

template <SgdKind kKind>
struct SgdUpdate {
  SgdStep step;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    const auto grad = regularised(d, scaled_grad(d, memory, i, step.grad_scale), parameter, step.weight_decay);
    auto direction = grad;
    if constexpr (kKind != SgdKind::kPlain) {
      const auto buffer = blend(d, hn::LoadU(d, memory.state[0] + i), step.momentum, grad, step.new_share);
      hn::StoreU(buffer, d, memory.state[0] + i);
      direction = buffer;
      if constexpr (kKind == SgdKind::kNesterov) {
        direction = hn::Add(grad, hn::Mul(buffer, hn::Set(d, step.nesterov)));
      }
    }
    hn::StoreU(hn::Sub(parameter, hn::Mul(hn::Set(d, step.lr), direction)), d, memory.parameter + i);
  }
};

void sgd_plain(const Memory& memory, const SgdStep& step) { for_elements(memory, SgdUpdate<SgdKind::kPlain>{step}); }
void sgd_momentum(const Memory& memory, const SgdStep& step) {
  for_elements(memory, SgdUpdate<SgdKind::kMomentum>{step});
}
void sgd_nesterov(const Memory& memory, const SgdStep& step) {
  for_elements(memory, SgdUpdate<SgdKind::kNesterov>{step});
}

struct LarsUpdate {
  LarsStep step;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    const auto grad = regularised(d, scaled_grad(d, memory, i, step.grad_scale), parameter, step.weight_decay);
    const auto buffer = blend(d, hn::LoadU(d, memory.state[0] + i), step.momentum, grad, step.rate);
    hn::StoreU(buffer, d, memory.state[0] + i);
    hn::StoreU(hn::Sub(parameter, buffer), d, memory.parameter + i);
  }
};

void lars(const Memory& memory, const LarsStep& step) { for_elements(memory, LarsUpdate{step}); }

template <bool kMomentum, bool kCentered>
struct RmspropUpdate {
  RmspropStep step;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    const auto grad = regularised(d, scaled_grad(d, memory, i, step.grad_scale), parameter, step.weight_decay);
    const auto square = blend_square(d, hn::LoadU(d, memory.state[0] + i), step.alpha, grad, step.one_minus_alpha);
    hn::StoreU(square, d, memory.state[0] + i);
    auto variance = square;
    if constexpr (kCentered) {
      float* averages = memory.state[kMomentum ? 2 : 1];
      const auto average = blend(d, hn::LoadU(d, averages + i), step.alpha, grad, step.one_minus_alpha);
      hn::StoreU(average, d, averages + i);
      variance = hn::Abs(hn::Sub(square, hn::Mul(average, average)));
    }
    auto direction = hn::Div(grad, hn::Add(hn::Sqrt(variance), hn::Set(d, step.eps)));
    if constexpr (kMomentum) {
      direction = hn::Add(hn::Mul(hn::LoadU(d, memory.state[1] + i), hn::Set(d, step.momentum)), direction);
      hn::StoreU(direction, d, memory.state[1] + i);
    }
    hn::StoreU(hn::Sub(parameter, hn::Mul(hn::Set(d, step.lr), direction)), d, memory.parameter + i);
  }
};

void rmsprop(const Memory& memory, const RmspropStep& step) {
  if (step.has_momentum && step.centered) return for_elements(memory, RmspropUpdate<true, true>{step});
  if (step.has_momentum) return for_elements(memory, RmspropUpdate<true, false>{step});
  if (step.centered) return for_elements(memory, RmspropUpdate<false, true>{step});
  return for_elements(memory, RmspropUpdate<false, false>{step});
}

struct AdagradUpdate {
  AdagradStep step;

  template <class D>
  HWY_INLINE void operator()(D d, const Memory& memory, std::int64_t i) const {
    const auto parameter = hn::LoadU(d, memory.parameter + i);
    const auto grad = regularised(d, scaled_grad(d, memory, i, step.grad_scale), parameter, step.weight_decay);
    const auto sum = hn::Add(hn::LoadU(d, memory.state[0] + i), hn::Mul(grad, grad));
    const auto direction = hn::Div(grad, hn::Add(hn::Sqrt(sum), hn::Set(d, step.eps)));
    hn::StoreU(sum, d, memory.state[0] + i);
    hn::StoreU(hn::Sub(parameter, hn::Mul(hn::Set(d, step.lr), direction)), d, memory.parameter + i);
  }
};

void adagrad(const Memory& memory, const AdagradStep& step) { for_elements(memory, AdagradUpdate{step}); }

// A float's square is exact in double. There are always 16 partial sums, so that the width of the vectors does not
// change the result. The outer loop computes two vectors of partial sums in registers and reads the whole block for
// them, so callers pass blocks that fit into the cache.
double squares(const float* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  const hn::CappedTag<double, kLanes / 2> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  const auto width = static_cast<std::int64_t>(hn::Lanes(wide));
  const std::int64_t whole = count / kLanes * kLanes;
  HWY_ALIGN double lanes[kLanes];
  const auto square = [&](std::int64_t i) {
    const auto value = hn::PromoteTo(wide, hn::LoadU(narrow, values + i));
    return hn::Mul(value, value);
  };
  for (std::int64_t lane = 0; lane < kLanes; lane += 2 * width) {
    auto first = hn::Zero(wide);
    auto second = hn::Zero(wide);
    for (std::int64_t i = lane; i < whole; i += kLanes) {
      first = hn::Add(first, square(i));
      second = hn::Add(second, square(i + width));
    }
    hn::StoreU(first, wide, lanes + lane);
    hn::StoreU(second, wide, lanes + lane + width);
  }
  for (std::int64_t i = whole; i < count; ++i) {
    lanes[i - whole] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optim {

HWY_EXPORT(sgd_plain);
HWY_EXPORT(sgd_momentum);
HWY_EXPORT(sgd_nesterov);
HWY_EXPORT(lars);
HWY_EXPORT(rmsprop);
HWY_EXPORT(adagrad);
HWY_EXPORT(squares);

void sgd_update(const Memory& memory, const SgdStep& step) { HWY_DYNAMIC_DISPATCH(sgd_plain)(memory, step); }
void sgd_momentum_update(const Memory& memory, const SgdStep& step) {
  HWY_DYNAMIC_DISPATCH(sgd_momentum)(memory, step);
}
void sgd_nesterov_update(const Memory& memory, const SgdStep& step) {
  HWY_DYNAMIC_DISPATCH(sgd_nesterov)(memory, step);
}
void lars_update(const Memory& memory, const LarsStep& step) { HWY_DYNAMIC_DISPATCH(lars)(memory, step); }
void rmsprop_update(const Memory& memory, const RmspropStep& step) { HWY_DYNAMIC_DISPATCH(rmsprop)(memory, step); }
void adagrad_update(const Memory& memory, const AdagradStep& step) { HWY_DYNAMIC_DISPATCH(adagrad)(memory, step); }
double sum_of_squares(const float* values, std::int64_t count) { return HWY_DYNAMIC_DISPATCH(squares)(values, count); }

}  // namespace lockstep::optim
#endif
