// SPDX-License-Identifier: Apache-2.0
// What libtorch's CUDA allocator keeps and counts, after something that is to leave no trace. cuda_cache.cpp where
// Lockstep is built with CUDA, else no_cuda_cache.cpp.
#pragma once

namespace lockstep::train {

/// Gives memory that no tensor uses back to the GPU, and counts the peaks of memory_use() from here on. Waits for the
/// GPU.
void forget_gpu_memory(int gpu);

}  // namespace lockstep::train
