// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda/cuda_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

namespace lockstep::tensor {

MemoryUse cuda_memory_use(int gpu) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(gpu));
  constexpr std::size_t kAllPools = 0;  // StatType::AGGREGATE, whose namespace changed between 1.13 and 2.x
  return {.peak = stats.allocated_bytes[kAllPools].peak, .reserved = stats.reserved_bytes[kAllPools].peak};
}

void forget_cuda_memory(int gpu) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(gpu));
}

}  // namespace lockstep::tensor
