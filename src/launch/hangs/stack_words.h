// SPDX-License-Identifier: Apache-2.0
// Chooses which threads of a late rank to report, and describes them. Pure. A process with libtorch has dozens of
// threads, most of which are waiting for work, and a report must fit on a screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "launch/hangs/thread_stack.h"

namespace lockstep::launch {

struct StackLimits {
  std::size_t main_frames = 20;
  std::size_t other_frames = 8;
  std::size_t lines = 40;
};

/// Returns the lines of the report: the main thread, then the threads inside the program, and a count of the threads
/// waiting in a pool.
[[nodiscard]] std::vector<std::string> words_of(const ProcessStacks& stacks, const StackLimits& limits = {});

/// Reads a rank's own report (lockstep/base/fault.h): "#0 _Zname+0x1c (file)", one line per frame.
[[nodiscard]] std::vector<StackFrame> parse_frames(std::string_view text);

/// Returns a demangled name, such as "lockstep::Loader::next()", or `name` itself if it cannot be demangled.
[[nodiscard]] std::string demangled(const char* name);

}  // namespace lockstep::launch
