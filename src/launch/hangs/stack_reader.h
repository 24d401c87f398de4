// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of another process through ptrace, with elfutils' libdw. Each of its threads is stopped for a few
// milliseconds and then resumed, unless it was already stopped.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "launch/hangs/thread_stack.h"

namespace lockstep::launch {

/// Blocks for at most `limit`, then returns the stacks read so far. A separate thread reads them: the kernel releases
/// the traced threads when that thread ends, for whatever reason, and a file on a dead disk blocks only that thread.
[[nodiscard]] ProcessStacks read_stacks(pid_t pid, std::chrono::milliseconds limit);

}  // namespace lockstep::launch
