// SPDX-License-Identifier: Apache-2.0
// Before main, when OpenBLAS has set itself up and no thread is there yet: a product that was computed with other
// kernels than the next one would have other bits. The linker takes this file into every program that uses the module
// (--undefined in CMakeLists.txt), whatever else of the module the program needs.
#include "lockstep/base/blas.h"
#include "lockstep/base/standby.h"

namespace {

// A standby waits here: its libraries are loaded, and nothing of the program has run yet.
bool prepare_program() {
  const bool chosen = lockstep::blas::choose_kernels();
  lockstep::standby::wait_where_asked();
  return chosen;
}

}  // namespace

extern "C" {
extern const bool lockstep_blas_kernels_chosen;
const bool lockstep_blas_kernels_chosen = prepare_program();
}
