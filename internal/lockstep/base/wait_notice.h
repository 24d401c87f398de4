// SPDX-License-Identifier: Apache-2.0
// Times the notices of a process that is waiting for others: after 3 s, and then every 30 s.
#pragma once

#include <optional>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Decides when to report to the user that a wait continues. Thread-safe: no. Example: if (const auto waited =
/// notice.due(now)) log::note("waiting for node 1 ({} so far)", text::duration(waited->count()));
class WaitNotice {
 public:
  explicit WaitNotice(TimePoint begin);
  /// Returns how long the wait has lasted if a notice is due; else none.
  [[nodiscard]] std::optional<Seconds> due(TimePoint now);
  /// Returns the time of the next notice.
  [[nodiscard]] TimePoint next() const { return next_; }

 private:
  TimePoint begin_;
  TimePoint next_;
};

}  // namespace lockstep

#pragma GCC visibility pop
