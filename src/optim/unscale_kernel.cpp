// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the program chooses one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/unscale_kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must precede highway.h.
#include <hwy/highway.h>

#include <cmath>

#include "optim/unscale_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::optim {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

bool unscale(float* values, std::int64_t count, float factor) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  auto all_finite = hn::Eq(factors, factors);  // true in every lane: the factor is not NaN
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    all_finite = hn::And(all_finite, hn::IsFinite(value));
    hn::StoreU(hn::Mul(value, factors), d, values + i);
  }
  bool finite = hn::AllTrue(d, all_finite);
  for (; i < count; ++i) {
    finite = finite && std::isfinite(values[i]);
    values[i] *= factor;
  }
  return finite;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::optim
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::optim {

HWY_EXPORT(unscale);

bool unscale_finite(float* values, std::int64_t count, float factor) {
  return HWY_DYNAMIC_DISPATCH(unscale)(values, count, factor);
}

}  // namespace lockstep::optim
#endif
