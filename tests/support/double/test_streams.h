// SPDX-License-Identifier: Apache-2.0
// Streams of GPU 0 for tests of the double itself.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/Stream.h>

namespace lockstep::testing {

inline const c10::Device kGpu(c10::kCUDA, 0);

inline c10::Stream another_stream() { return c10::impl::VirtualGuardImpl(c10::kCUDA).getStreamFromGlobalPool(kGpu); }
inline c10::Stream current_stream() { return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(kGpu); }

/// Makes `later` wait for the current work of `earlier`.
inline void put_behind(const c10::Stream& later, const c10::Stream& earlier) {
  c10::Event event(c10::kCUDA);
  event.record(earlier);
  event.block(later);
}

}  // namespace lockstep::testing
