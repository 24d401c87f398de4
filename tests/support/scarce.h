// SPDX-License-Identifier: Apache-2.0
// Makes a process run out of a resource. Only for a short-lived child, because a limit cannot be raised again.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "lockstep/base/resources.h"

namespace lockstep::test {

/// True if a limit on the address space has an effect; under qemu-user it has none.
inline bool keeps_address_space() {
  rlimit before{};
  ::getrlimit(RLIMIT_AS, &before);
  const rlimit lower{std::min<rlim_t>(before.rlim_cur, rlim_t{1} << 46U), before.rlim_max};
  rlimit now{};
  ::setrlimit(RLIMIT_AS, &lower);
  ::getrlimit(RLIMIT_AS, &now);
  ::setrlimit(RLIMIT_AS, &before);
  return now.rlim_cur == lower.rlim_cur;
}

/// Limits this process to mapping this many more bytes of memory.
inline void leave_address_space(std::size_t bytes) {
  const rlim_t most = resource_limits().mapped.value_or(0) + bytes;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace lockstep::test
