// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "train/step/cuda_cache.h"

namespace lockstep::train {

void forget_gpu_memory(int gpu) {
  throw UsageError(fmt::format("the memory of GPU {} is to be given back, and Lockstep was built without CUDA", gpu),
                   "configure with -DLOCKSTEP_CUDA=ON");
}

}  // namespace lockstep::train
