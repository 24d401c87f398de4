// SPDX-License-Identifier: Apache-2.0
#include "data/device_copy.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/StreamGuard.h>

namespace lockstep::data {

DeviceCopy::DeviceCopy(c10::Device device) : device_(device) {
  // From the low-priority pool: steps are recorded on a stream of the other pool (tensor/recorded_stream.h).
  if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

std::optional<c10::Event> DeviceCopy::start(Batch& batch) {
  if (!stream_) return std::nullopt;
  const c10::StreamGuard on_stream(*stream_);
  for (at::Tensor* tensor : {&batch.data, &batch.target}) {
    if (tensor->defined()) *tensor = tensor->to(device_, tensor->scalar_type(), /*non_blocking=*/true);
  }
  c10::Event copied(device_.type());
  copied.record(*stream_);
  return copied;
}

void wait_for_copy(const c10::Event& copied, const Batch& batch) {
  for (const at::Tensor* tensor : {&batch.data, &batch.target}) {
    if (!tensor->defined()) continue;  // a collate function may leave one out
    const c10::Device device = tensor->device();
    const c10::Stream current = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    copied.block(current);
    tensor->record_stream(current);
  }
}

}  // namespace lockstep::data
