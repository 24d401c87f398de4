// SPDX-License-Identifier: Apache-2.0
// Loads the libraries given as arguments as if the program were linked to them, then prints what Lockstep finds for
// CUDA.
#include <dlfcn.h>

#include "lockstep/base/cuda_library.h"
#include "lockstep/base/standard_streams.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  for (int i = 1; i < argc; ++i) {
    if (::dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
  }
  const cuda::Obstacle foreseen = cuda::obstacle_to(cuda::search_of_this_process());
  const cuda::Library& library = cuda::library();
  print_to(stdout, "path '{}' parts '{}'\n", library.path,
           library.parts == nullptr ? "" : static_cast<const char*>(library.parts));
  print_to(stdout, "foreseen '{}' found '{}' next '{}'\n", foreseen.problem, library.obstacle.problem,
           library.obstacle.remedy);
  return 0;
}
