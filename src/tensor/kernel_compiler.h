// SPDX-License-Identifier: Apache-2.0
// NVRTC: compiles CUDA C++ in the process. The library is loaded at its first use.
#pragma once

#include <string>

#include "lockstep/tensor/device_kernels.h"

namespace lockstep::tensor {

/// Machine code, or, for a GPU that the compiler does not know yet, PTX, which the driver translates.
struct CompiledKernels {
  std::string image;    ///< for the driver to load; empty if the compilation failed
  std::string problem;  ///< the reason
};

/// Compiles for GPUs of compute capability `capability` (90 for 9.0). Blocks: for some seconds. Thread-safe: yes.
[[nodiscard]] CompiledKernels compile_kernels(const KernelSource& source, int capability);

}  // namespace lockstep::tensor
