// SPDX-License-Identifier: Apache-2.0
// A make-believe CUDA that only knows which device is current in which thread.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

#include "lockstep/tensor/device.h"

namespace lockstep::testing {

/// While it lives, the process has such GPUs and computes on `gpu`. One at a time, and no real ones beside it.
class FakeCuda {
 public:
  using Guard = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;

  explicit FakeCuda(int gpu) {
    static const Guard guard;
    c10::impl::DeviceGuardImplRegistrar(c10::kCUDA, &guard);
    tensor::use_device({c10::kCUDA, static_cast<c10::DeviceIndex>(gpu)});
  }
  ~FakeCuda() {
    tensor::use_device(c10::Device(c10::kCPU));
    c10::impl::DeviceGuardImplRegistrar(c10::kCUDA, nullptr);
  }
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  /// The calling thread's.
  static int current() { return Guard::getDeviceIndex(); }
};

}  // namespace lockstep::testing
