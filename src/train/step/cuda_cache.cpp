// SPDX-License-Identifier: Apache-2.0
#include "train/step/cuda_cache.h"

#include <c10/cuda/CUDACachingAllocator.h>

namespace lockstep::train {

void forget_gpu_memory(int gpu) {
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(gpu));
}

}  // namespace lockstep::train
