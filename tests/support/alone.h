// SPDX-License-Identifier: Apache-2.0
// A job of one rank, for tests that need no other ranks.
#pragma once

#include "lockstep/comm/job.h"

namespace lockstep::testing {

inline Job alone() {
  const char* program = "test";
  return init(1, &program);
}

}  // namespace lockstep::testing
