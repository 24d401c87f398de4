// SPDX-License-Identifier: Apache-2.0
// The waits of an exchange: it first polls for a short time, because a small message arrives within microseconds and a
// sleep takes longer. Then it sleeps until a descriptor is ready. If polling has not helped recently, it sleeps at once
// and leaves the processor to the rank that must send.
#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

namespace lockstep::wire {

/// How well a thread's earlier polling has worked.
struct WaitHabit {
  int credit = 8;  ///< above 0: polling helps
  int slept = 0;   ///< number of sleeps since the last poll
};

class PatientWait {
 public:
  explicit PatientWait(WaitHabit& habit) : habit_(habit) {}

  /// Records that bytes were sent or received.
  void moved() noexcept;
  /// Returns true if the caller should poll again at once, false if it should sleep.
  [[nodiscard]] bool spin() noexcept;
  /// Sleeps until a descriptor is ready, for at most `limit`.
  void block(std::vector<pollfd>& fds, std::chrono::nanoseconds limit) noexcept;

 private:
  WaitHabit& habit_;
  bool is_spinning_ = false;
  bool has_given_up_ = false;  // reset when bytes move
  std::chrono::steady_clock::time_point end_{};
};

}  // namespace lockstep::wire
