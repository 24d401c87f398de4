// SPDX-License-Identifier: Apache-2.0
// The process between the agent and a worker: session leader and subreaper of the worker's whole tree. It can end every
// descendant, even one that hides, and does so when the agent dies. Runs after a fork of a program that may have
// threads: nothing here allocates, locks or throws.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace lockstep::launch {

inline constexpr int kStandbyDescriptor = 3;

/// Everything a stub needs, prepared before the fork.
struct StubPlan {
  const char* path = nullptr;  ///< path of the program
  char* const* arguments = nullptr;
  char* const* shell_arguments = nullptr;  ///< for a script without "#!", as a shell would run it
  char* const* environment = nullptr;
  int input = -1;  ///< become the worker's 0, 1 and 2
  int output = -1;
  int errors = -1;
  int standby = -1;      ///< becomes the worker's 3, from which a standby reads; -1: the worker is none
  int control = -1;      ///< socket to the agent: StubReport out, StubOrder in
  int agent_pidfd = -1;  ///< -1 if the kernel has none
  pid_t agent = 0;
  int leftover_grace_ms = 0;  ///< for processes that a worker left behind when it ended by itself
};

enum class StubEvent : std::int32_t {
  kStarted,     ///< value: the worker's pid
  kExecFailed,  ///< value: errno
  kEnded,       ///< value: the wait status
};

/// Stub to agent.
struct StubReport {
  StubEvent event = StubEvent::kStarted;
  std::int32_t value = 0;
  std::int32_t signal_sent = 0;  ///< the last signal that the stub had sent to the worker before it ended; 0: none
};

/// Agent to stub: sends `signal` to the worker and SIGKILL to the rest of its tree after `grace_ms`; if that is below
/// 0, the signal is not to end anything.
struct StubOrder {
  std::int32_t signal = 0;
  std::int32_t grace_ms = 0;
};

/// Runs the worker to its end and returns when no descendant is left: then leave by _exit.
void run_stub(const StubPlan& plan) noexcept;

}  // namespace lockstep::launch
