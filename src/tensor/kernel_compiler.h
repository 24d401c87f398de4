// SPDX-License-Identifier: Apache-2.0
// NVRTC: compiles CUDA C++ in the process. The library is loaded when it is first needed.
#pragma once

#include <string>

#include "lockstep/tensor/device_kernels.h"

namespace lockstep::tensor {

/// Machine code, or PTX, which the driver translates, for a GPU that the compiler does not know yet.
struct CompiledKernels {
  std::string image;    ///< what the driver loads; empty: it failed
  std::string problem;  ///< why
};

/// Compiles for GPUs of compute capability `capability` (90 for 9.0). Blocks: for seconds. Thread-safe: yes.
[[nodiscard]] CompiledKernels compile_kernels(const KernelSource& source, int capability);

}  // namespace lockstep::tensor
