// SPDX-License-Identifier: Apache-2.0
// The stacks of a process: as they are read, and as they are reported.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::launch {

struct StackFrame {
  std::string function = {};  ///< demangled; empty: the file has no name for it
  std::string module = {};    ///< "libtorch_cpu.so.1.13.0"; empty: unknown
  std::uint64_t offset = 0;   ///< in the function, else in the module's file

  bool operator==(const StackFrame&) const = default;
};

struct ThreadStack {
  pid_t thread = 0;
  std::string name = {};  ///< as the kernel has it, 15 letters at most
  char state = '?';       ///< before it was looked at: R runs, S sleeps, D cannot be interrupted, T stopped
  std::vector<StackFrame> frames = {};  ///< innermost first
  std::string problem = {};             ///< why there are no frames
};

struct ProcessStacks {
  pid_t pid = 0;
  std::string program = {};  ///< the executable's file name
  std::vector<ThreadStack> threads = {};
  int refusal = 0;      ///< errno if the system did not allow it; no threads then
  bool is_cut = false;  ///< time was up before all threads were read
};

}  // namespace lockstep::launch
