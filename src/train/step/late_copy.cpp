// SPDX-License-Identifier: Apache-2.0
#include "train/step/late_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <thread>

namespace lockstep::train {

LateCopy::LateCopy(const at::Tensor& tensor) : host_(tensor) {
  if (tensor.device().is_cpu()) return;
  // From pageable memory the call would wait for the device.
  host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  host_.copy_(tensor, /*non_blocking=*/true);
  copied_.emplace(tensor.device().type());
  copied_->record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
}

const at::Tensor& LateCopy::get() const {
  // libtorch 1.13 can only poll an event of any device. It is usually long past.
  while (copied_ && !copied_->query()) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return host_;
}

}  // namespace lockstep::train
