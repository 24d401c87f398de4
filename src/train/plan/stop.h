// SPDX-License-Identifier: Apache-2.0
// Why a run is asked to end early, on one rank. The reason that all ranks agree on arrives with the loss
// (loss_meter.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lockstep/base/clock.h"

namespace lockstep::train {

/// The reasons why a run ends early, in ascending order of precedence. A run that was asked to end does not request a
/// restart. A run whose disk fails (disk_trouble.h) or whose background save has failed ends with that error.
enum class StopReason { kNone, kTimeLimit, kUserSignal, kInterrupted, kTerminated, kDisk };
inline constexpr int kStopReasons = 5;  ///< number of reasons, without kNone

/// Returns "--max-time", "SIGUSR1", "SIGINT", "SIGTERM"; "" for kNone and kDisk.
[[nodiscard]] std::string stop_name(StopReason reason);

/// A SIGINT or SIGTERM, as its handler receives it.
struct StopSignal {
  std::int64_t ms = 0;         ///< time of the signal, in CLOCK_MONOTONIC milliseconds
  bool from_terminal = false;  ///< a user pressed Ctrl-C; no process sent it
};

/// Returns true if `now` is a second request, not a repetition of `first`. Within a second, a launcher forwards signals
/// that the terminal or a scheduler has already sent to each process; a terminal never repeats a signal on its own.
[[nodiscard]] bool asks_again(const StopSignal& first, const StopSignal& now) noexcept;

/// While it lives, SIGINT, SIGTERM and SIGUSR1 are recorded instead of ending the process; a second SIGINT or SIGTERM
/// ends the process. Handlers set by the program are kept.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the reason that corresponds to the received signal; kNone if there was none.
  [[nodiscard]] static StopReason seen() noexcept;
};

/// One rank's request to end the run, because of a signal or the time limit.
class StopWish {
 public:
  /// `max_time` counts from now; 0 means no limit.
  StopWish(const Clock& clock, std::chrono::duration<double> max_time);
  [[nodiscard]] StopReason reason() const;

 private:
  StopSignals signals_;
  const Clock& clock_;
  std::chrono::duration<double> max_time_;
  TimePoint begin_;
};

}  // namespace lockstep::train
