// SPDX-License-Identifier: Apache-2.0
// The device of this process, which all of its threads must use. A thread starts with GPU 0 as its current device,
// whichever its process computes on: what it allocates there (pinned memory too) costs GPU 0 some hundred MB for each
// rank of the host.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Returns true where libtorch has CUDA and the process has loaded it; there may still be no GPU. Where it is false,
/// cuda::library() says why.
[[nodiscard]] bool has_cuda() noexcept;

/// Returns how many GPUs CUDA_VISIBLE_DEVICES leaves to this process; 0 without has_cuda().
[[nodiscard]] int cuda_device_count() noexcept;

/// Makes `device` the process's device and the calling thread's current one. Call it before anything is allocated.
/// Thread-safe: yes.
void use_device(const c10::Device& device);

/// Makes the process's device the calling thread's. A thread that may use tensors calls it first.
/// Thread-safe: yes. Cost: none where the device is the CPU.
void adopt_device();

/// Returns true where the parts of Lockstep that need CUDA's own libraries are there: native_stream(), pci_address(),
/// make_device_graph(). Where it is false, cuda::library() says why.
[[nodiscard]] bool has_cuda_parts();

/// Returns the stream as the device's own libraries know it: a cudaStream_t. Throws: UsageError where
/// cuda::library() has an obstacle.
[[nodiscard]] void* native_stream(const c10::Stream& stream);

/// Returns the address of a GPU on the PCI bus: "0000:3b:00.0". All slices of a GPU (MIG) have the same. Throws:
/// ResourceError where CUDA does not know it, UsageError where cuda::library() has an obstacle.
[[nodiscard]] std::string pci_address(int gpu);

/// Returns the model of a GPU: "NVIDIA A100-PCIE-40GB"; "GPU" where has_cuda_parts() is false. `device`: a GPU.
[[nodiscard]] std::string device_name(const c10::Device& device);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
