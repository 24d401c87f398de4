// SPDX-License-Identifier: Apache-2.0
// Signals belong to the user's threads: their handlers know nothing of Lockstep's threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#pragma GCC visibility push(default)

namespace lockstep {

/// While it lives, the calling thread takes no signals. Threads that it starts meanwhile never take any.
class [[nodiscard]] SignalGuard {
 public:
  SignalGuard() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace lockstep

#pragma GCC visibility pop
