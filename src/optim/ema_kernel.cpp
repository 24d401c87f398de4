// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/ema_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include "optim/ema_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Multiplications and additions are never fused (a compiler option in CMakeLists.txt also forbids it), so that every
// processor gives the same bits as PyTorch.
void average(float* averages, const float* values, std::int64_t count, float decay, float share) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto decays = hn::Set(d, decay);
  const auto shares = hn::Set(d, share);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto old = hn::Mul(hn::LoadU(d, averages + i), decays);
    hn::StoreU(hn::Add(old, hn::Mul(hn::LoadU(d, values + i), shares)), d, averages + i);
  }
  for (; i < count; ++i) averages[i] = averages[i] * decay + values[i] * share;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optim {

HWY_EXPORT(average);

void ema_update(float* averages, const float* values, std::int64_t count, float decay, float share) {
  HWY_DYNAMIC_DISPATCH(average)(averages, values, count, decay, share);
}

}  // namespace lockstep::optim
#endif
