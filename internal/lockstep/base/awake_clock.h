// SPDX-License-Identifier: Apache-2.0
// Time that this process could use. A whole job may be suspended and go on: by Ctrl-Z, by Slurm, with a paused virtual
// machine. To measure how long others are silent, leave out the time in which this process itself was stopped.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Counts time in which a process was not stopped. Thread-safe: no. Example: if (awake.at(now) >= deadline) give_up();
class AwakeTime {
 public:
  /// `look`: at() is called at least this often during a wait. If it is called after more than three times as long, the
  /// process was stopped, and only `look` counts. So a late wake-up on a busy machine does not count as a stop.
  explicit AwakeTime(TimePoint::duration look) : look_(look) {}
  /// Returns `now` minus the time in which the process was stopped.
  [[nodiscard]] TimePoint at(TimePoint now) {
    const auto gap = last_ ? now - *last_ : TimePoint::duration(0);
    if (gap > 3 * look_) stopped_ += gap - look_;
    last_ = now;
    return now - stopped_;
  }
  /// Returns how long the process was stopped so far.
  [[nodiscard]] TimePoint::duration stopped() const { return stopped_; }

 private:
  TimePoint::duration look_;
  std::optional<TimePoint> last_;
  TimePoint::duration stopped_{0};
};

/// A wait for a moment of AwakeClock must look at the clock at least this often.
inline constexpr std::chrono::milliseconds kAwakeLook{200};

/// The time of this process without the time in which it was stopped. Thread-safe: yes.
class AwakeClock final : public Clock {
 public:
  explicit AwakeClock(const Clock& source) : source_(source) {}
  [[nodiscard]] TimePoint now() const override;
  /// Returns the process's clock, which lives for the whole program.
  [[nodiscard]] static const AwakeClock& instance();

 private:
  const Clock& source_;
  mutable std::mutex mutex_;
  mutable AwakeTime time_{kAwakeLook};
};

/// Returns the wait until the next look at the clock, if `left` is left until a moment of AwakeClock.
[[nodiscard]] inline std::chrono::nanoseconds awake_slice(std::chrono::nanoseconds left) {
  return std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), kAwakeLook);
}

/// Waits until `done`, for `limit` at most, in short waits. A short wait that the process slept through counts only for
/// its planned length. Returns the last result of `done`.
template <class Done>
bool wait_awake(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds limit,
                const Done& done) {
  for (std::chrono::nanoseconds left = limit; left.count() > 0 && !done();) {
    const auto slice = awake_slice(left);
    (void)changed.wait_for(lock, slice, done);
    left -= slice;
  }
  return done();
}

}  // namespace lockstep

#pragma GCC visibility pop
