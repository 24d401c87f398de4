// SPDX-License-Identifier: Apache-2.0
#include "parallel/caller_streams.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/tensor/device.h"

namespace lockstep::parallel {

CallerStreams::CallerStreams() {
  if (!tensor::has_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  for (int gpu = 0; gpu < tensor::cuda_device_count(); ++gpu) {
    streams_.push_back(guard.getStream({c10::kCUDA, static_cast<c10::DeviceIndex>(gpu)}));
  }
}

void CallerStreams::enter() const {
  if (streams_.empty()) return;
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  for (const c10::Stream& stream : streams_) (void)guard.exchangeStream(stream);
}

}  // namespace lockstep::parallel
