// SPDX-License-Identifier: Apache-2.0
// This file is compiled once for each instruction set (foreach_target.h); the choice is made at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/bench/bench_stream.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes before highway.h, as Highway requires.
#include <hwy/highway.h>

#include "worker/bench/bench_stream.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::worker {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void stream(const StreamMemory& memory, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto add = [](auto tag, float* to, auto value) { hn::StoreU(hn::Add(hn::LoadU(tag, to), value), tag, to); };
  const auto step = [&](auto tag, std::int64_t i) {
    const auto grad = hn::LoadU(tag, memory.grad + i);
    add(tag, memory.first + i, grad);
    add(tag, memory.second + i, grad);
    add(tag, memory.parameter + i, grad);
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) step(d, i);
  for (; i < count; ++i) step(hn::CappedTag<float, 1>(), i);
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::worker
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::worker {

HWY_EXPORT(stream);

void stream_4r3w(const StreamMemory& memory, std::int64_t count) { HWY_DYNAMIC_DISPATCH(stream)(memory, count); }

}  // namespace lockstep::worker
#endif
