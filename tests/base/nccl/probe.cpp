// SPDX-License-Identifier: Apache-2.0
// Loads the libraries given as arguments as if the program were linked to them, then prints the NCCL that Lockstep
// picks.
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
