// SPDX-License-Identifier: Apache-2.0
// KernelRecorder: what the rank's GPU runs, by Kineto, the recorder of GPU activities in libtorch.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <c10/core/Device.h>

#include <vector>

#include "lockstep/view/profile.h"

namespace lockstep::observe {

/// One for a process, used by one thread. On a CPU it does nothing.
class KernelRecorder {
 public:
  explicit KernelRecorder(c10::Device device) : device_(device) {}
  /// Stops it, and drops what it recorded.
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  void start();
  /// Waits for the current stream of the device, and returns the kernels, copies and fills since start().
  [[nodiscard]] std::vector<view::DeviceCall> stop();

 private:
  c10::Device device_;
  bool on_ = false;
};

}  // namespace lockstep::observe
