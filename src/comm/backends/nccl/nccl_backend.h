// SPDX-License-Identifier: Apache-2.0
// NCCL under a group: its functions directly, on a stream of its own. no_nccl.cpp takes its place where libtorch has no
// CUDA.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/core/device_backend.h"
#include "comm/core/failure.h"
#include "lockstep/base/nccl_library.h"

namespace lockstep::comm {

/// Returns the NCCL that make_nccl_backend() would use, or why it would fail.
[[nodiscard]] const nccl::Library& usable_nccl();

/// Which GPU of a host a device is, in words that are equal for all of the host's processes.
struct GpuId {
  std::string unique;  ///< its UUID; of a slice (MIG) the slice's own
  std::string slot;    ///< its address on the PCI bus, which all slices of a GPU have
};

/// Returns who the GPU is; in a build without CUDA the device's name.
[[nodiscard]] GpuId gpu_id(const c10::Device& device);

/// Lets NCCL take this rank beside others on the same GPU, for tests. Sets NCCL's variables for this process.
void take_part_beside_ranks_on_the_same_gpu(int rank);

/// Connects the world's GPUs; rank 0 publishes the id in the store. NCCL's own variables (NCCL_*) apply.
/// Collective: yes. Blocks: up to the timeout.
/// Throws: ResourceError with advice, TimeoutError, UsageError in a build without CUDA.
[[nodiscard]] std::unique_ptr<DeviceBackend> make_nccl_backend(const World& world, const c10::Device& device,
                                                               std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
