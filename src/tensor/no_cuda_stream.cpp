// SPDX-License-Identifier: Apache-2.0
// A build without CUDA has no streams.
#include "tensor/cuda_stream.h"

namespace lockstep::tensor {

void* native_stream() { return nullptr; }

}  // namespace lockstep::tensor
