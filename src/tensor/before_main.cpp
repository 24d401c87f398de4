// SPDX-License-Identifier: Apache-2.0
// Runs before main, after OpenBLAS has set itself up and before any thread starts: products computed with different
// kernels have different bits. libtorch also asks once if there is CUDA, as early as in a program's manual_seed(). The
// linker adds this file to every program that uses the module (--undefined in CMakeLists.txt), even if the program
// needs nothing else of it.
#include "lockstep/base/blas.h"
#include "lockstep/base/standby.h"
#include "tensor/cuda_parts.h"

namespace {

// A standby waits here: its libraries are loaded, and no code of the program has run yet.
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
