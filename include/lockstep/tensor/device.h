// SPDX-License-Identifier: Apache-2.0
// The device of this process, which all of its threads must use. Every thread starts with GPU 0 as its current device.
// If it allocates there, even pinned memory, each rank takes a few hundred MB of GPU 0.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

#pragma GCC visibility push(default)

namespace lockstep::tensor {

/// Returns true if libtorch has CUDA and the process has loaded it; there may still be no GPU. If it is false,
/// cuda::library() says why.
[[nodiscard]] bool has_cuda() noexcept;

/// Returns the number of GPUs that CUDA_VISIBLE_DEVICES leaves to this process; 0 without has_cuda().
[[nodiscard]] int cuda_device_count() noexcept;

/// Makes `device` the process's device and the calling thread's current one. Call it before anything is allocated.
/// Thread-safe: yes.
void use_device(const c10::Device& device);

/// Makes the process's device the calling thread's current one. Every thread that may use tensors must call it first.
/// Thread-safe: yes. Cost: none if the device is the CPU.
void adopt_device();

/// Returns true if the parts of Lockstep that need CUDA's own libraries are available: native_stream(), pci_address(),
/// make_device_graph(). If it is false, cuda::library() says why.
[[nodiscard]] bool has_cuda_parts();

/// Returns the stream as a cudaStream_t, for CUDA's libraries. Throws: UsageError if cuda::library() has an obstacle.
[[nodiscard]] void* native_stream(const c10::Stream& stream);

/// Returns the address of a GPU on the PCI bus in lower case, as in /sys: "0000:3b:00.0". All slices of a GPU (MIG)
/// share one address. Throws: ResourceError if CUDA does not know the GPU, UsageError if cuda::library() has an
/// obstacle.
[[nodiscard]] std::string pci_address(int gpu);

/// Returns the model name of the GPU `device`, such as "NVIDIA A100-PCIE-40GB"; "GPU" if has_cuda_parts() is false.
[[nodiscard]] std::string device_name(const c10::Device& device);

}  // namespace lockstep::tensor

#pragma GCC visibility pop
