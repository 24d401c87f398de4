// SPDX-License-Identifier: Apache-2.0
// Strangers can cause an event a thousand times a second: its warning comes at most once a second, with the count.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Counts events and says when a warning of them is due. Thread-safe: no. Example: if (const auto count =
/// rare.add(now)) log::warn("{} strangers were turned away", *count);
class RareWarning {
 public:
  /// Counts one more event. If a warning is due now, returns the number of events since the last one.
  [[nodiscard]] std::optional<std::size_t> add(TimePoint now);
  /// Returns the count that has not been reported yet if a warning is due now.
  [[nodiscard]] std::optional<std::size_t> due(TimePoint now);
  /// Returns the time when due() will have something to report; none if it has nothing.
  [[nodiscard]] std::optional<TimePoint> next() const;

 private:
  std::size_t unsaid_ = 0;
  std::optional<TimePoint> last_;
};

}  // namespace lockstep

#pragma GCC visibility pop
