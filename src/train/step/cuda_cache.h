// SPDX-License-Identifier: Apache-2.0
// What libtorch's CUDA allocator keeps and counts, after something that is to leave no trace. cuda_cache.cpp where
// Lockstep is built with CUDA, else no_cuda_cache.cpp.
#pragma once

namespace lockstep::train {

/// Returns memory that no tensor uses to the GPU, and restarts the peaks of memory_use(). It waits for the GPU.
void forget_gpu_memory(int gpu);

}  // namespace lockstep::train
