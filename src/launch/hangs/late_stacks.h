// SPDX-License-Identifier: Apache-2.0
// The stacks of a rank that is late, in lines for a report: from outside if the system permits it, else from the rank
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
  char state = '?';                       ///< as /proc/PID/stat has it
  std::filesystem::path stack_file = {};  ///< the file for the rank's own report
};

/// A process's own report on one of its threads.
struct SelfReport {
  std::vector<StackFrame> frames = {};
  std::string problem = {};  ///< why there are none
};

/// The sources of stacks. Tests put their own in.
struct StackSources {
  std::function<ProcessStacks(pid_t)> outside;
  std::function<SelfReport(const LateProcess&)> inside;
};

/// ptrace, and the signal of lockstep/base/fault.h. Together they take 2 s at most.
[[nodiscard]] StackSources system_sources();

/// Returns the report's lines; without stacks, one line with the reason.
[[nodiscard]] std::vector<std::string> stacks_of(const LateProcess& late, const StackSources& sources);

/// LOCKSTEP_STACKS=off switches them off.
[[nodiscard]] bool wants_stacks();

}  // namespace lockstep::launch
