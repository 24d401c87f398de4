// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/memory.h"

#include <malloc.h>

#include <limits>

#include "lockstep/base/env.h"

namespace lockstep {

void keep_freed_memory() {
  for (const char* chosen : {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_ARENA_MAX"}) {
    if (env::get(chosen)) return;
  }
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_ARENA_MAX, 1);  // the arenas of other threads cannot hold large blocks, which glibc then maps and unmaps
#endif
}

}  // namespace lockstep
