// SPDX-License-Identifier: Apache-2.0
// What NCCL needs of CUDA itself: a stream's handle, and who a GPU is.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>

namespace lockstep::comm {

/// Which GPU of a host a device is, in words that are equal for all of the host's processes.
struct GpuId {
  std::string unique;  ///< its UUID; of a slice (MIG) the slice's own
  std::string slot;    ///< its address on the PCI bus, which all slices of a GPU have
};

/// Returns who the GPU is; where cuda::library() has an obstacle, the device's name.
[[nodiscard]] GpuId gpu_id(const c10::Device& device);

}  // namespace lockstep::comm
