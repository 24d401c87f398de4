// SPDX-License-Identifier: Apache-2.0
#include "launch/hangs/traced_thread.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace lockstep::launch {

namespace {
constexpr auto kHeldLook = std::chrono::microseconds(200);
}

// PTRACE_SEIZE, since PTRACE_ATTACH would send a SIGSTOP that outlives us where we are killed in between.
TracedThread::TracedThread(pid_t thread, TimePoint deadline) : thread_(thread) {
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    refusal_ = errno == ESRCH ? 0 : errno;
    return;
  }
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return;
  for (;;) {
    int status = 0;
    const pid_t found = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (found < 0 && errno != EINTR) return;
    if (found == thread) {
      stands_ = WIFSTOPPED(status);
      const bool is_ours = (status >> 16) == PTRACE_EVENT_STOP;
      if (stands_ && !is_ours) signal_ = WSTOPSIG(status);
      return;
    }
    if (SystemClock::instance().now() >= deadline) return;  // let go of when the tracing thread ends
    std::this_thread::sleep_for(kHeldLook);
  }
}

TracedThread::~TracedThread() {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the system call takes the number in a pointer's place
  if (stands_) ::ptrace(PTRACE_DETACH, thread_, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(signal_)));
}

}  // namespace lockstep::launch
