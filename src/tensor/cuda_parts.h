// SPDX-License-Identifier: Apache-2.0
// The functions that need libtorch's CUDA libraries. They are in src/tensor/cuda, the library liblockstep-cuda.so. The
// library must be from the same version of Lockstep, since both sides are compiled together.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <c10/core/Stream.h>

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/device_memory.h"

namespace lockstep::tensor {

struct CudaParts {
  std::unique_ptr<DeviceGraph> (*make_graph)() = nullptr;
  MemoryUse (*memory_use)(int gpu) = nullptr;
  void (*forget_memory)(int gpu) = nullptr;
  void* (*stream)(const c10::Stream&) = nullptr;
  std::string (*pci_address)(int gpu, std::string& problem) = nullptr;
  std::string (*name)(int gpu) = nullptr;
  bool (*is_recording)() = nullptr;
};

/// Returns the parts of this process, which the first call loads. Null if they cannot be loaded: cuda::library() says
/// why. If make_believe_parts() are set, it returns those.
[[nodiscard]] const CudaParts* cuda_parts();

/// Returns the parts. `without` says what fails without them, for the error message. Throws: UsageError if they cannot
/// be loaded.
[[nodiscard]] const CudaParts& require_cuda_parts(std::string_view without);

/// The parts of simulated GPUs, which a test sets; else null.
[[nodiscard]] const CudaParts*& make_believe_parts();

}  // namespace lockstep::tensor
