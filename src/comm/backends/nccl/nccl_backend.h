// SPDX-License-Identifier: Apache-2.0
// NCCL under a group: nccl.h directly, on a stream of its own. no_nccl.cpp takes its place where libtorch has no CUDA.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/core/device_backend.h"
#include "comm/core/failure.h"

namespace lockstep::comm {

/// Returns "2.27.3", the version of the loaded library; empty without NCCL.
[[nodiscard]] std::string nccl_version();

/// Returns the GPU's address on its host's PCI bus, equal for all processes of the host; without NCCL the device's
/// name.
[[nodiscard]] std::string gpu_id(const c10::Device& device);

/// Lets NCCL take this rank beside others on the same GPU, for tests. Sets NCCL's variables for this process.
void take_part_beside_ranks_on_the_same_gpu(int rank);

/// Connects the world's GPUs; rank 0 publishes the id in the store. NCCL's own variables (NCCL_*) apply.
/// Collective: yes. Blocks: up to the timeout.
/// Throws: ResourceError with advice, TimeoutError, UsageError in a build without NCCL.
[[nodiscard]] std::unique_ptr<DeviceBackend> make_nccl_backend(const World& world, const c10::Device& device,
                                                               std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
