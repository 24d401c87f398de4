// SPDX-License-Identifier: Apache-2.0
// Loads the libraries of its arguments like a program's own, then prints the NCCL that Lockstep takes.
#include <dlfcn.h>

#include "lockstep/base/nccl_library.h"
#include "lockstep/base/standard_streams.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (::dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  }
  const lockstep::nccl::Library& library = lockstep::nccl::library();
  lockstep::print_to(stdout, "path '{}' version '{}' problem '{}'\n", library.path, library.version, library.problem);
  return 0;
}
