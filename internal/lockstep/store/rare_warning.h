// SPDX-License-Identifier: Apache-2.0
// Limits warnings to one per second, with a count, about events that strangers can cause a thousand times a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Counts events and decides when a warning about them is due. Thread-safe: no. Example: if (const auto count =
/// rare.add(now)) log::warn("{} strangers were turned away", *count);
class RareWarning {
 public:
  /// Counts one more event. If a warning is due now, returns the number of events since the last one.
  [[nodiscard]] std::optional<std::size_t> add(TimePoint now);
  /// If a warning is due now, returns the number of events that have not been reported yet.
  [[nodiscard]] std::optional<std::size_t> due(TimePoint now);
  /// Returns the time of the next warning; none if all events have been reported.
  [[nodiscard]] std::optional<TimePoint> next() const;

 private:
  std::size_t unsaid_ = 0;
  std::optional<TimePoint> last_;
};

}  // namespace lockstep

#pragma GCC visibility pop
