// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "tensor/cuda_memory.h"

namespace lockstep::tensor {

MemoryUse cuda_memory_use(int gpu) {
  throw UsageError(fmt::format("the memory of GPU {} is asked for, and Lockstep was built without CUDA", gpu),
                   "configure with -DLOCKSTEP_CUDA=ON");
}

}  // namespace lockstep::tensor
