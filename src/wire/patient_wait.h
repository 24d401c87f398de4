// SPDX-License-Identifier: Apache-2.0
// How an exchange waits: it first polls for a moment, because a small message comes within microseconds and a sleep
// costs more; then it sleeps until a descriptor is ready. If polling has not helped lately, it sleeps at once and
// leaves the processor to the rank that has to send.
#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

namespace lockstep::wire {

/// A thread's experience with its waits so far.
struct WaitHabit {
  int credit = 8;  ///< above 0: polling pays
  int slept = 0;   ///< sleeps since the last poll
};

class PatientWait {
 public:
  explicit PatientWait(WaitHabit& habit) : habit_(habit) {}

  /// Notes that bytes came.
  void moved() noexcept;
  /// Returns true if the caller should poll again at once; false: it should sleep.
  [[nodiscard]] bool spin() noexcept;
  /// Sleeps until a descriptor is ready, for `limit` at most.
  void block(std::vector<pollfd>& fds, std::chrono::nanoseconds limit) noexcept;

 private:
  WaitHabit& habit_;
  bool is_spinning_ = false;
  bool has_given_up_ = false;  // until bytes come
  std::chrono::steady_clock::time_point end_{};
};

}  // namespace lockstep::wire
