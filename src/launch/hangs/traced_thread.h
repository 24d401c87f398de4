// SPDX-License-Identifier: Apache-2.0
// One thread of another process, held still while this lives.
#pragma once

#include <sys/types.h>

#include "lockstep/base/clock.h"

namespace lockstep::launch {

/// Owned by the thread that made it: the kernel takes no other's word.
class TracedThread {
 public:
  /// Blocks until it stands, until `deadline` at most.
  TracedThread(pid_t thread, TimePoint deadline);
  /// Lets it go on. A thread that was stopped before stays so, and a signal that came meanwhile is delivered.
  ~TracedThread();
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  [[nodiscard]] bool stands() const { return stands_; }
  /// errno of the refusal; 0: it was allowed, or there is no such thread.
  [[nodiscard]] int refusal() const { return refusal_; }

 private:
  pid_t thread_;
  int refusal_ = 0;
  bool stands_ = false;
  int signal_ = 0;  // on its way to the thread when it stopped
};

}  // namespace lockstep::launch
