// SPDX-License-Identifier: Apache-2.0
// A process that runs out of something. Only for a child that ends soon: a limit cannot be raised again.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

#include "lockstep/base/resources.h"

namespace lockstep::test {

/// From here on this process can map only so many bytes more.
inline void leave_address_space(std::size_t bytes) {
  const rlim_t most = resource_limits().mapped.value_or(0) + bytes;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace lockstep::test
