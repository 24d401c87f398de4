// SPDX-License-Identifier: Apache-2.0
// The stacks of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launch {

struct StackFrame {
  std::string function = {};  ///< demangled name; empty if the file has no symbol for it
  std::string module = {};    ///< file name, such as "libtorch_cpu.so.1.13.0"; empty if unknown
  std::uint64_t offset = 0;   ///< offset in the function; if `function` is empty, in the module's file

  bool operator==(const StackFrame&) const = default;
};

struct ThreadStack {
  pid_t thread = 0;
  std::string name = {};  ///< the kernel's name for the thread, at most 15 characters
  char state = '?';       ///< state before it was read: R running, S sleeping, D uninterruptible, T stopped
  std::vector<StackFrame> frames = {};  ///< its frames, innermost first
  std::string problem = {};             ///< why there are no frames
};

struct ProcessStacks {
  pid_t pid = 0;
  std::string program = {};  ///< the executable's file name
  std::vector<ThreadStack> threads = {};
  int refusal = 0;      ///< errno if the system did not allow access, in which case there are no threads
  bool is_cut = false;  ///< the time limit expired before all threads were read
};

}  // namespace lockstep::launch
