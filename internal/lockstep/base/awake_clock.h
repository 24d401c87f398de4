// SPDX-License-Identifier: Apache-2.0
// A clock that excludes the time during which this process was stopped. A whole job may be suspended and resumed by
// Ctrl-Z, by Slurm, or along with a virtual machine. So when this process measures how long others have been silent, it
// excludes the time during which it was stopped itself.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Counts the time during which a process was not stopped. Thread-safe: no. Example: if (awake.at(now) >= deadline)
/// give_up();
class AwakeTime {
 public:
  /// During a wait, call at() at least once every `look`. If more than three times `look` passes between two calls, the
  /// process was stopped, and only `look` counts. So a late wake-up on a busy machine does not count as a stop.
  explicit AwakeTime(TimePoint::duration look) : look_(look) {}
  /// Returns `now` minus the time during which the process was stopped.
  [[nodiscard]] TimePoint at(TimePoint now) {
    const auto gap = last_ ? now - *last_ : TimePoint::duration(0);
    if (gap > 3 * look_) stopped_ += gap - look_;
    last_ = now;
    return now - stopped_;
  }
  /// Returns the total time during which the process was stopped.
  [[nodiscard]] TimePoint::duration stopped() const { return stopped_; }

 private:
  TimePoint::duration look_;
  std::optional<TimePoint> last_;
  TimePoint::duration stopped_{0};
};

/// The longest time between two calls to now() during a wait that uses AwakeClock.
inline constexpr std::chrono::milliseconds kAwakeLook{200};

/// The process's clock, excluding the time during which the process was stopped. Thread-safe: yes.
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

/// Returns the time to wait before the next call to now(), if `left` remains until the deadline on AwakeClock.
[[nodiscard]] inline std::chrono::nanoseconds awake_slice(std::chrono::nanoseconds left) {
  return std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(0), kAwakeLook);
}

/// Waits until `done` returns true, for at most `limit`, in short waits. If the process is stopped during a short wait,
/// only its planned length counts. Returns the last result of `done`.
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
