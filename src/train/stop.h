// SPDX-License-Identifier: Apache-2.0
// Why a run is asked to leave before its end, as one rank sees it. What all ranks agree on comes with the loss
// (loss_meter.h).
#pragma once

#include <chrono>
#include <string>

#include "lockstep/base/clock.h"

namespace lockstep::train {

/// In the order of precedence, the last first: a run that was told to end does not ask to be started again.
enum class StopReason { kNone, kTimeLimit, kUserSignal, kTerminated };
inline constexpr int kStopReasons = 3;  ///< without kNone

/// "--max-time", "SIGUSR1", "SIGTERM".
[[nodiscard]] std::string stop_name(StopReason reason);

/// While it lives, SIGTERM and SIGUSR1 are noted instead of ending the process; a second SIGTERM, a second or more
/// later, ends it. A handler
/// that the program has set itself stays.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// What came, if anything.
  [[nodiscard]] static StopReason seen() noexcept;
};

/// One rank's wish to leave: a signal, or that the time is over.
class StopWish {
 public:
  /// `max_time`: from now; 0: no limit.
  StopWish(const Clock& clock, std::chrono::duration<double> max_time);
  [[nodiscard]] StopReason reason() const;

 private:
  StopSignals signals_;
  const Clock& clock_;
  std::chrono::duration<double> max_time_;
  TimePoint begin_;
};

}  // namespace lockstep::train
