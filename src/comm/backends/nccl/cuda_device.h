// SPDX-License-Identifier: Apache-2.0
// What NCCL needs of CUDA itself: a stream's handle, and who a GPU is.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Stream.h>

#include <string>

#include "lockstep/base/nccl_library.h"

namespace lockstep::comm {

using HandleOfStream = nccl::Stream (*)(const c10::Stream&);

/// Returns the function that gives a stream's cudaStream_t. It is null where cuda::library() has an obstacle,
/// unless a test has set that of a make-believe GPU.
[[nodiscard]] HandleOfStream& handle_of_stream();

/// Which GPU of a host a device is, in words that are equal for all of the host's processes.
struct GpuId {
  std::string unique;  ///< its UUID; of a slice (MIG) the slice's own
  std::string slot;    ///< its address on the PCI bus, which all slices of a GPU have
};

/// Returns who the GPU is; where cuda::library() has an obstacle, the device's name.
[[nodiscard]] GpuId gpu_id(const c10::Device& device);

}  // namespace lockstep::comm
