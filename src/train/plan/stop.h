// SPDX-License-Identifier: Apache-2.0
// Why a run is asked to leave before its end, as one rank sees it. The reason that all ranks agree on comes with the
// loss (loss_meter.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/base/clock.h"

namespace lockstep::train {

/// Why a run leaves early. The last one has the highest precedence: a run that was asked to end does not ask for a
/// restart, and one whose disk fails (disk_trouble.h), or whose save in the background has failed, ends with that
/// error.
enum class StopReason { kNone, kTimeLimit, kUserSignal, kInterrupted, kTerminated, kDisk };
inline constexpr int kStopReasons = 5;  ///< without kNone

/// Returns "--max-time", "SIGUSR1", "SIGINT", "SIGTERM"; "" for kNone and kDisk.
[[nodiscard]] std::string stop_name(StopReason reason);

/// A SIGINT or SIGTERM, as its handler sees it.
struct StopSignal {
  std::int64_t ms = 0;         ///< milliseconds of CLOCK_MONOTONIC
  bool from_terminal = false;  ///< a user pressed Ctrl-C; it comes from no process
};

/// Returns true if `now` is a second request and does not only repeat `first`. A launcher forwards, within a second,
/// signals that the terminal or a scheduler has already sent to each process; a terminal never repeats a signal by
/// itself.
[[nodiscard]] bool asks_again(const StopSignal& first, const StopSignal& now) noexcept;

/// While it lives, SIGINT, SIGTERM and SIGUSR1 are recorded instead of ending the process; a second SIGINT or SIGTERM
/// ends it. A handler that the program has set itself is kept.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the signal that came, if any.
  [[nodiscard]] static StopReason seen() noexcept;
};

/// One rank's request to leave: because of a signal, or because the time is over.
class StopWish {
 public:
  /// `max_time` counts from now; 0: no limit.
  StopWish(const Clock& clock, std::chrono::duration<double> max_time);
  [[nodiscard]] StopReason reason() const;

 private:
  StopSignals signals_;
  const Clock& clock_;
  std::chrono::duration<double> max_time_;
  TimePoint begin_;
};

}  // namespace lockstep::train
