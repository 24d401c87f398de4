// SPDX-License-Identifier: Apache-2.0
// Delivers signals through a descriptor for the agent's loop.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "lockstep/base/file_system.h"

namespace lockstep::launch {

/// Returns a name such as "SIGTERM"; its number if the signal has no name.
[[nodiscard]] std::string signal_name(int number);

/// While this object lives, the given signals and SIGWINCH are delivered through fd(), and SIGPIPE is ignored. SIGHUP
/// stays ignored if nohup has made it so. Owned by the thread that created it.
class SignalGuard {
 public:
  /// Throws: ResourceError if no descriptor is left.
  explicit SignalGuard(const std::vector<int>& signals);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Returns the next signal; 0 if none is pending.
  [[nodiscard]] int next() const noexcept;

 private:
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

}  // namespace lockstep::launch
