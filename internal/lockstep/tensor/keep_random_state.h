// SPDX-License-Identifier: Apache-2.0
// Work that draws random numbers, but must not change those that the caller draws afterwards.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Its destructor restores the default random generators of the CPU and of `device`. No device waits.
class KeepRandomState {
 public:
  explicit KeepRandomState(const c10::Device& device = c10::kCPU);
  ~KeepRandomState();
  KeepRandomState(const KeepRandomState&) = delete;
  KeepRandomState& operator=(const KeepRandomState&) = delete;

 private:
  at::Tensor cpu_;                          ///< state before
  std::optional<at::Generator> generator_;  ///< of the device; none for a CPU
  at::Tensor device_;                       ///< its state before
};

}  // namespace lockstep::tensor

#pragma GCC visibility pop
