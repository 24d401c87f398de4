// SPDX-License-Identifier: Apache-2.0
// Runs before main(), after OpenBLAS has initialised itself and before any thread starts. It chooses OpenBLAS's
// kernels, since different kernels give results that differ in the last bits. It also loads the CUDA parts, since
// libtorch checks for CUDA only once, as early as in manual_seed(). The linker adds this file to every program that
// uses the module (--undefined in CMakeLists.txt), even if the program needs nothing else from it.
#include "lockstep/base/blas.h"
#include "lockstep/base/standby.h"
#include "tensor/cuda_parts.h"

namespace {

// A standby process waits at the end of this function: libraries are loaded, and no code of the program has run yet.
bool prepare_program() {
  const bool chosen = lockstep::blas::choose_kernels();
  (void)lockstep::tensor::cuda_parts();
  lockstep::standby::wait_if_asked();
  return chosen;
}

}  // namespace

extern "C" {
extern const bool lockstep_before_main;
const bool lockstep_before_main = prepare_program();
}
