// SPDX-License-Identifier: Apache-2.0
// What libtorch's CUDA allocator counts. cuda_memory.cpp where Lockstep is built with CUDA, else no_cuda_memory.cpp.
#pragma once

#include "lockstep/tensor/device_memory.h"

namespace lockstep::tensor {

/// Throws: UsageError where Lockstep was built without CUDA.
[[nodiscard]] MemoryUse cuda_memory_use(int gpu);

}  // namespace lockstep::tensor
