// SPDX-License-Identifier: Apache-2.0
// The time until which the launcher makes this rank's collectives wait, on the clock of their deadlines.
#pragma once

#include <algorithm>
#include <mutex>

#include "lockstep/base/awake_clock.h"

namespace lockstep::comm {

/// The launcher writes moments of the machine's clock, which goes on while the whole job is suspended. A moment that
/// was read in time holds as long as it would have without the suspension, and for at least kAfterStop: the launcher
/// was stopped, too, and may go on after this rank. Thread-safe: yes.
class Patience {
 public:
  static constexpr auto kAfterStop = std::chrono::seconds(2);

  /// `until`: the launcher's present value; `now` and `awake`: the present time of the machine's clock and of
  /// AwakeClock. Returns the end as a moment of AwakeClock.
  [[nodiscard]] TimePoint end(TimePoint until, TimePoint now, TimePoint awake) {
    const std::lock_guard lock(mutex_);
    const auto stopped = now - awake;
    // The two clocks are not read at the same moment: a difference below one look is no stop.
    if (stopped - stopped_ > kAwakeLook && end_ > looked_) grace_ = awake + kAfterStop;
    stopped_ = stopped;
    looked_ = awake;
    if (until != seen_) {
      seen_ = until;
      end_ = awake + (until - now);
    }
    return std::max(end_, grace_);
  }

 private:
  std::mutex mutex_;
  TimePoint seen_{};
  TimePoint end_{};
  TimePoint grace_{};   ///< the end of the grace time after the last stop
  TimePoint looked_{};  ///< the time of the last call
  TimePoint::duration stopped_{0};
};

}  // namespace lockstep::comm
