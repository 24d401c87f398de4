// SPDX-License-Identifier: Apache-2.0
// NVRTC: compiles CUDA C++ in the process. The library is loaded on first use.
#pragma once

#include <string>

#include "lockstep/tensor/device_kernels.h"

namespace lockstep::tensor {

/// Machine code, or, for a GPU that the compiler does not support yet, PTX, which the driver translates.
struct CompiledKernels {
  std::string image;    ///< the code that the driver loads; empty if the compilation failed
  std::string problem;  ///< the reason why the compilation failed
};

/// Compiles for GPUs of compute capability `capability` (90 for 9.0). Blocks: for a few seconds. Thread-safe: yes.
[[nodiscard]] CompiledKernels compile_kernels(const KernelSource& source, int capability);

}  // namespace lockstep::tensor
