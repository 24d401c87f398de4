// SPDX-License-Identifier: Apache-2.0
// Until when the launcher has this rank's collectives wait, on the clock of their deadlines.
#pragma once

#include <mutex>

#include "lockstep/base/clock.h"

namespace lockstep::comm {

/// The launcher writes moments of the machine's clock, which goes on while the whole job is suspended. A moment that
/// was seen in time holds as long as it would have without that. Thread-safe: yes.
class Patience {
 public:
  /// `until`: what the launcher says now; `now` and `awake`: the present of the machine's clock and of AwakeClock.
  /// Returns the end as a moment of AwakeClock.
  [[nodiscard]] TimePoint end(TimePoint until, TimePoint now, TimePoint awake) {
    const std::lock_guard lock(mutex_);
    if (until != seen_) {
      seen_ = until;
      end_ = awake + (until - now);
    }
    return end_;
  }

 private:
  std::mutex mutex_;
  TimePoint seen_{};
  TimePoint end_{};
};

}  // namespace lockstep::comm
