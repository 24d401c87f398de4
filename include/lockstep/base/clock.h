// SPDX-License-Identifier: Apache-2.0
// Time as an argument: code whose decisions depend on time takes a Clock, so that its tests need not sleep.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep {

/// A duration in fractional seconds.
using Seconds = std::chrono::duration<double>;
/// A point in time on the monotonic clock.
using TimePoint = std::chrono::steady_clock::time_point;

/// A clock that can be replaced in tests. Thread-safe: yes.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Returns the current time, which never goes backwards.
  [[nodiscard]] virtual TimePoint now() const = 0;
};

/// The machine's monotonic clock.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
  /// Returns the single instance, which lives for the whole program.
  [[nodiscard]] static const SystemClock& instance();
};

/// Returns the local wall-clock time, for use in file names: "20261121-093000".
[[nodiscard]] std::string time_stamp();

/// Returns "captcha" for "captcha-20261121-093000" and for "captcha-20261121-093000-2", which make_new_folder() creates
/// if the former exists. Returns a name without a stamp unchanged.
[[nodiscard]] std::string_view without_time_stamp(std::string_view name);

}  // namespace lockstep

#pragma GCC visibility pop
