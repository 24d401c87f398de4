// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

namespace lockstep::tensor {
namespace {

// The index of the process's GPU, or -1 if it computes on the CPU. Atomic, so that threads may read it at any time.
std::atomic<int> process_gpu{-1};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

bool has_cuda() noexcept { return c10::impl::hasDeviceGuardImpl(c10::kCUDA); }

int cuda_device_count() noexcept {
  return has_cuda() ? static_cast<int>(c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount()) : 0;
}

void use_device(const c10::Device& device) {
  process_gpu = device.is_cuda() ? static_cast<int>(device.index()) : -1;
  adopt_device();
}

void adopt_device() {
  const int index = process_gpu;
  if (index < 0) return;
  c10::impl::getDeviceGuardImpl(c10::kCUDA)->setDevice({c10::kCUDA, static_cast<c10::DeviceIndex>(index)});
}

}  // namespace lockstep::tensor
