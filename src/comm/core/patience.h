// SPDX-License-Identifier: Apache-2.0
// The time until which this rank's collectives wait at the launcher's request, on the clock of their deadlines.
#pragma once

#include <algorithm>
#include <mutex>

#include "lockstep/base/awake_clock.h"

namespace lockstep::comm {

/// Converts the launcher's times to AwakeClock. The launcher writes times on the machine's clock, which keeps running
/// while the whole job is suspended. A suspension does not shorten a wait that is under way. After the suspension the
/// wait lasts at least another kAfterStop, because the launcher was also stopped and may resume later. Thread-safe:
/// yes.
class Patience {
 public:
  static constexpr auto kAfterStop = std::chrono::seconds(2);

  /// `until` is the launcher's current value; `now` and `awake` are the current times of the machine's clock and of
  /// AwakeClock. Returns the end of the wait as an AwakeClock time.
  [[nodiscard]] TimePoint end(TimePoint until, TimePoint now, TimePoint awake) {
    const std::lock_guard lock(mutex_);
    const auto stopped = now - awake;
    // The two clocks are not read at the same moment, so a difference below kAwakeLook does not indicate a stop.
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
  TimePoint grace_{};   ///< end of the grace time after the last stop
  TimePoint looked_{};  ///< the time of the last call
  TimePoint::duration stopped_{0};
};

}  // namespace lockstep::comm
