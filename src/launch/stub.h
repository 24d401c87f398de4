// SPDX-License-Identifier: Apache-2.0
// The stub, a process between the agent and a worker: session leader and subreaper of the worker's whole tree. It can
// end every descendant, even one that left the session, and does so when the agent dies. It runs after the fork of a
// program that may be multithreaded, so it never allocates, locks or throws.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace lockstep::launch {

inline constexpr int kStandbyDescriptor = 3;

/// The inputs of a stub, prepared before the fork.
struct StubPlan {
  const char* path = nullptr;  ///< path of the program
  char* const* arguments = nullptr;
  char* const* shell_arguments = nullptr;  ///< arguments for running a script without "#!", as a shell would
  char* const* environment = nullptr;
  int input = -1;  ///< descriptors that become the worker's 0, 1 and 2
  int output = -1;
  int errors = -1;
  int standby = -1;      ///< descriptor that becomes the worker's 3, which a standby reads from; -1 if not a standby
  int control = -1;      ///< socket to the agent: sends StubReport, receives StubOrder
  int agent_pidfd = -1;  ///< pidfd of the agent; -1 if the kernel does not support it
  pid_t agent = 0;
  int leftover_grace_ms = 0;  ///< time limit for processes that a worker left behind when it ended on its own
};

enum class StubEvent : std::int32_t {
  kStarted,     ///< value: the worker's pid
  kExecFailed,  ///< value: errno
  kEnded,       ///< value: the wait status
};

/// A message from the stub to the agent.
struct StubReport {
  StubEvent event = StubEvent::kStarted;
  std::int32_t value = 0;
  std::int32_t signal_sent = 0;  ///< last signal that the stub sent before the worker ended; 0 if none
};

/// A message from the agent to the stub: send `signal` to the worker, and SIGKILL to the rest of its tree after
/// `grace_ms`. A negative `grace_ms` means that the signal is only passed on.
struct StubOrder {
  std::int32_t signal = 0;
  std::int32_t grace_ms = 0;
};

/// Runs the worker until it ends and returns when no descendant is left. The caller then calls _exit().
void run_stub(const StubPlan& plan) noexcept;

}  // namespace lockstep::launch
