// SPDX-License-Identifier: Apache-2.0
// Keeps signals away from Lockstep's threads: the user's handlers do not expect to run there.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <spawn.h>

#include <initializer_list>

#pragma GCC visibility push(default)

namespace lockstep {

/// While an instance is alive, the calling thread receives no signals. Threads that it starts then never receive any.
/// Crash signals (SIGSEGV, SIGBUS, SIGFPE, SIGILL) are an exception: the thread that causes one gets it. If it were
/// blocked, Linux would end the process without calling the handler that reports it.
class [[nodiscard]] SignalGuard {
 public:
  SignalGuard() noexcept {
    sigset_t most;
    sigfillset(&most);
    for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&most, crash);
    pthread_sigmask(SIG_BLOCK, &most, &before_);
  }
  ~SignalGuard() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  sigset_t before_{};
};

/// The attributes with which posix_spawn() starts a program as a shell would: no signal is blocked, and SIGPIPE ends
/// it, regardless of the calling thread's settings. Python's subprocess does the same.
class ChildSignals {
 public:
  ChildSignals() noexcept {
    sigset_t none;
    sigemptyset(&none);
    sigset_t pipe = none;
    sigaddset(&pipe, SIGPIPE);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &pipe);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~ChildSignals() { posix_spawnattr_destroy(&attributes_); }
  ChildSignals(const ChildSignals&) = delete;
  ChildSignals& operator=(const ChildSignals&) = delete;

  /// The attributes live as long as this object.
  [[nodiscard]] const posix_spawnattr_t* attributes() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace lockstep

#pragma GCC visibility pop
