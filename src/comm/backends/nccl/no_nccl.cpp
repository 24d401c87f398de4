// SPDX-License-Identifier: Apache-2.0
// For builds without CUDA.
#include "comm/backends/nccl/nccl_backend.h"
#include "lockstep/base/error.h"

namespace lockstep::comm {

const nccl::Library& usable_nccl() {
  static const nccl::Library none{.problem = "this build of Lockstep has no CUDA (LOCKSTEP_CUDA)"};
  return none;
}

GpuId gpu_id(const c10::Device& device) { return {device.str(), ""}; }

void take_part_beside_ranks_on_the_same_gpu(int /*rank*/) {}

std::unique_ptr<DeviceBackend> make_nccl_backend(const World& /*world*/, const c10::Device& /*device*/,
                                                 std::chrono::milliseconds /*timeout*/) {
  throw UsageError(usable_nccl().problem, "build with a libtorch that has CUDA");
}

}  // namespace lockstep::comm
