// SPDX-License-Identifier: Apache-2.0
// The parts of CUDA that NCCL needs: a stream's handle, and the identity of a GPU.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Device.h>

#include <string>

namespace lockstep::comm {

/// Identifies a GPU of a host. All processes of the host get the same strings.
struct GpuId {
  std::string unique;  ///< its UUID; for a slice (MIG) the slice's UUID
  std::string slot;    ///< its address on the PCI bus, shared by all slices of a GPU
};

/// Returns the identity of the GPU; if cuda::library() reports an obstacle, the device's name.
[[nodiscard]] GpuId gpu_id(const c10::Device& device);

}  // namespace lockstep::comm
