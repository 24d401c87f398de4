// SPDX-License-Identifier: Apache-2.0
// The device of this process, which all of its threads must use. A thread starts with GPU 0 as its current device,
// whichever its process computes on: what it allocates there (pinned memory too) costs GPU 0 some hundred MB for each
// rank of the host.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <c10/core/Device.h>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Returns true where libtorch has CUDA and the process has loaded it; there may still be no GPU.
[[nodiscard]] bool has_cuda() noexcept;

/// Returns how many GPUs CUDA_VISIBLE_DEVICES leaves to this process.
[[nodiscard]] int cuda_device_count() noexcept;

/// Makes `device` the process's device and the calling thread's current one. Call it before anything is allocated.
/// Thread-safe: yes.
void use_device(const c10::Device& device);

/// Makes the process's device the calling thread's. A thread that may use tensors calls it first.
/// Thread-safe: yes. Cost: none where the device is the CPU.
void adopt_device();

}  // namespace lockstep::tensor

#pragma GCC visibility pop
