// SPDX-License-Identifier: Apache-2.0
// Before main, when OpenBLAS has set itself up and no thread is there yet: a product that was computed with other
// kernels than the next one would have other bits. And libtorch asks once if there is CUDA, as early as in a program's
// manual_seed(). The linker takes this file into every program that uses the module
// (--undefined in CMakeLists.txt), whatever else of the module the program needs.
#include "lockstep/base/blas.h"
#include "lockstep/base/standby.h"
#include "tensor/cuda_parts.h"

namespace {

// A standby waits here: its libraries are loaded, and nothing of the program has run yet.
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
