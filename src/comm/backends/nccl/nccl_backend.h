// SPDX-License-Identifier: Apache-2.0
// NCCL as the transport of a group. It calls NCCL's functions directly, on a separate stream.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/backends/nccl/communicator.h"
#include "comm/backends/nccl/cuda_device.h"
#include "comm/core/device_backend.h"
#include "comm/core/failure.h"
#include "lockstep/base/nccl_library.h"

namespace lockstep::comm {

/// Returns the NCCL that make_nccl_backend() would use, or the reason why it would fail.
[[nodiscard]] const nccl::Library& usable_nccl();

/// Makes NCCL accept several ranks on the same GPU, for tests. Sets NCCL's variables for this process.
void take_part_beside_ranks_on_the_same_gpu(int rank);

/// Connects the world's GPUs. NCCL's own variables (NCCL_*) apply.
/// Collective: yes. Blocks: up to the timeout, or until `check` throws.
/// Throws: the exceptions of `check`; ResourceError with advice, TimeoutError.
[[nodiscard]] std::unique_ptr<DeviceBackend> make_nccl_backend(const World& world, const c10::Device& device,
                                                               std::chrono::milliseconds timeout,
                                                               const CheckOfHosts& check);

}  // namespace lockstep::comm
