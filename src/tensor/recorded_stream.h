// SPDX-License-Identifier: Apache-2.0
// The stream on which a process's steps are recorded, and the guard that sends work there. Header-only, because
// liblockstep-cuda.so is not linked with Lockstep.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/StreamGuard.h>

#include <exception>

namespace lockstep::tensor {

/// Returns the stream, which is the same for all recordings of the process. A GPU's default stream cannot be recorded.
/// The stream has high priority: libtorch hands out each of its 32 low-priority streams repeatedly, and loader threads
/// copy on these. If such a thread used the recorded stream, its copies would become part of a recording or break it.
/// NCCL's groups take one stream each of the same 32 high-priority ones.
[[nodiscard]] inline c10::Stream recorded_stream() {
  static const c10::Stream stream = [] {
    const c10::impl::VirtualGuardImpl gpus(c10::kCUDA);
    return gpus.getStreamFromGlobalPool(gpus.getDevice(), /*isHighPriority=*/true);
  }();
  return stream;
}

/// The guard behind DeviceGraph::enter.
class OnRecordedStream {
 public:
  OnRecordedStream()
      : before_(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(recorded_stream().device())),
        guard_(recorded_stream()) {
    put_behind(recorded_stream(), before_);
  }
  ~OnRecordedStream() {
    try {
      put_behind(before_, recorded_stream());
    } catch (const std::exception&) {
      // The device has failed, and its next call reports that.
    }
  }
  OnRecordedStream(const OnRecordedStream&) = delete;
  OnRecordedStream& operator=(const OnRecordedStream&) = delete;

 private:
  /// Makes future work of `later` wait for the current work of `earlier`.
  static void put_behind(const c10::Stream& later, const c10::Stream& earlier) {
    c10::Event event(c10::kCUDA);
    event.record(earlier);
    event.block(later);
  }

  c10::Stream before_;
  c10::StreamGuard guard_;
};

}  // namespace lockstep::tensor
