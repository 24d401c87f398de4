// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of another process through ptrace, with elfutils' libdw. Each of its threads is stopped for a few
// milliseconds; afterwards it runs on, or stays stopped if it was.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "launch/hangs/thread_stack.h"

namespace lockstep::launch {

/// Blocks for `limit` at most, and then returns the stacks that it has. The work is done in its own thread: the kernel
/// releases the traced threads when the tracing thread ends, whatever happens in it, and a file on a dead disk blocks
/// that thread only.
[[nodiscard]] ProcessStacks read_stacks(pid_t pid, std::chrono::milliseconds limit);

}  // namespace lockstep::launch
