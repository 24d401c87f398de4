// SPDX-License-Identifier: Apache-2.0
// The signals that an agent obeys, through a descriptor for its loop.
#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "lockstep/base/file_system.h"

namespace lockstep::launch {

/// "SIGTERM"; the number if it has no name.
[[nodiscard]] std::string signal_name(int number);

/// While it lives, the given signals (but not SIGHUP if nohup has it ignored) and SIGWINCH come through fd(), and
/// SIGPIPE is ignored. Belongs to the thread that made it.
class SignalGuard {
 public:
  /// Throws: ResourceError if no descriptor is left.
  explicit SignalGuard(const std::vector<int>& signals);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// The next signal; 0 if none waits.
  [[nodiscard]] int next() const noexcept;

 private:
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

}  // namespace lockstep::launch
