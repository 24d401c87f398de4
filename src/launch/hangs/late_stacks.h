// SPDX-License-Identifier: Apache-2.0
// Reads the stacks of a late rank as lines for a report: from outside if the system permits it, otherwise from the rank
// itself.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "launch/hangs/thread_stack.h"

namespace lockstep::launch {

struct LateProcess {
  pid_t pid = 0;
  char state = '?';                       ///< the state in /proc/PID/stat
  std::filesystem::path stack_file = {};  ///< the file for the rank's own report
};

/// A process's own report on one of its threads.
struct SelfReport {
  std::vector<StackFrame> frames = {};
  std::string problem = {};  ///< why there are no frames
};

/// The sources of stacks. Tests replace them.
struct StackSources {
  std::function<ProcessStacks(pid_t)> outside;
  std::function<SelfReport(const LateProcess&)> inside;
};

/// Returns the real sources: ptrace, and the signal of lockstep/base/fault.h. Together they take at most 2 s.
[[nodiscard]] StackSources system_sources();

/// Returns the lines for the report; if there are no stacks, one line with the reason.
[[nodiscard]] std::vector<std::string> stacks_of(const LateProcess& late, const StackSources& sources);

/// Returns false if LOCKSTEP_STACKS=off disables stacks.
[[nodiscard]] bool wants_stacks();

}  // namespace lockstep::launch
