// SPDX-License-Identifier: Apache-2.0
#include "tensor/cuda_stream.h"

#include <c10/cuda/CUDAStream.h>

namespace lockstep::tensor {

void* native_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

}  // namespace lockstep::tensor
