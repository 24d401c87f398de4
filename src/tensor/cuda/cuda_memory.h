// SPDX-License-Identifier: Apache-2.0
// Reads the statistics of libtorch's CUDA allocator, and empties its cache.
#pragma once

#include "lockstep/tensor/device_memory.h"

namespace lockstep::tensor {

[[nodiscard]] MemoryUse cuda_memory_use(int gpu);
void forget_cuda_memory(int gpu);

}  // namespace lockstep::tensor
