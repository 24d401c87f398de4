// SPDX-License-Identifier: Apache-2.0
// What strangers do can happen a thousand times a second: a warning of it comes once a second at most, with the count.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "lockstep/base/clock.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Not thread-safe. Example: if (const auto count = rare.add(now)) log::warn("{} strangers were turned away", *count);
class RareWarning {
 public:
  /// It happened once more. Returns: how often since the last warning, where one is due now.
  [[nodiscard]] std::optional<std::size_t> add(TimePoint now);
  /// What has not been said yet, where it is due now.
  [[nodiscard]] std::optional<std::size_t> due(TimePoint now);
  /// When due() will say something; none where there is nothing to say.
  [[nodiscard]] std::optional<TimePoint> next() const;

 private:
  std::size_t unsaid_ = 0;
  std::optional<TimePoint> last_;
};

}  // namespace lockstep

#pragma GCC visibility pop
