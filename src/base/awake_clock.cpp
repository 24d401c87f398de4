// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/awake_clock.h"

namespace lockstep {

TimePoint AwakeClock::now() const {
  // One critical section, so that no thread sees the time after a stop before the stop is known.
  const std::lock_guard lock(mutex_);
  return time_.at(source_.now());
}

const AwakeClock& AwakeClock::instance() {
  static const AwakeClock clock(SystemClock::instance());
  return clock;
}

}  // namespace lockstep
