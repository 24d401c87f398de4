// SPDX-License-Identifier: Apache-2.0
// A fake CUDA that knows only the current device and streams of each thread.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

#include <cstdint>

#include "lockstep/tensor/device.h"

namespace lockstep::testing {

/// While it exists, the process has fake GPUs and computes on `gpu`. One object at a time, and no real GPUs.
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

  /// The calling thread's device.
  static int current() { return Guard::getDeviceIndex(); }
  static std::int64_t stream_of(int gpu) { return Guard::getCurrentStreamIdFor(static_cast<c10::DeviceIndex>(gpu)); }
};

/// While it exists, the calling thread computes on a stream of `gpu`.
class OnStream {
 public:
  OnStream(int gpu, int stream)
      : before_(FakeCuda::Guard().exchangeStream(
            c10::Stream(c10::Stream::UNSAFE, {c10::kCUDA, static_cast<c10::DeviceIndex>(gpu)}, stream))) {}
  ~OnStream() { (void)FakeCuda::Guard().exchangeStream(before_); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  c10::Stream before_;
};

}  // namespace lockstep::testing
