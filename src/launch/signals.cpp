// SPDX-License-Identifier: Apache-2.0
#include "launch/signals.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "lockstep/base/resources.h"

namespace lockstep::launch {

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : fmt::format("SIG{}", name);
}

SignalGuard::SignalGuard(const std::vector<int>& signals) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  ::sigaddset(&blocked, SIGWINCH);
  for (const int number : signals) {
    if (number != SIGHUP || hangup.sa_handler != SIG_IGN) ::sigaddset(&blocked, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  fd_.reset(::signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.valid()) {
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);  // without this, signals that no thread reads would stay blocked
    throw_cannot("wait for signals", error);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
}

SignalGuard::~SignalGuard() {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int SignalGuard::next() const noexcept {
  signalfd_siginfo info;
  return ::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo)
                                                                                    : 0;
}

}  // namespace lockstep::launch
