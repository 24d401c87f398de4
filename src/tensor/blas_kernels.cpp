// SPDX-License-Identifier: Apache-2.0
// Before main, when OpenBLAS has set itself up and no thread is there yet: a product that was computed with other
// kernels than the next one would have other bits. The linker takes this file into every program that uses the module
// (--undefined in CMakeLists.txt), whatever else of the module the program needs.
#include "lockstep/base/blas.h"

extern "C" {
extern const bool lockstep_blas_kernels_chosen;
const bool lockstep_blas_kernels_chosen = lockstep::blas::choose_kernels();
}
