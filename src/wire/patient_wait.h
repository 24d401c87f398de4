// SPDX-License-Identifier: Apache-2.0
// How an exchange waits: for a moment it looks again and again, because a small message comes within microseconds and a
// sleep costs more; then it sleeps until a descriptor is ready. Where looking was of no use lately, it sleeps at once:
// the processor belongs to the rank that is to send.
#pragma once

#include <poll.h>

#include <chrono>
#include <vector>

namespace lockstep::wire {

/// What a thread has learned of its waits so far.
struct WaitHabit {
  int credit = 8;  ///< above 0: looking pays
  int slept = 0;   ///< sleeps since it looked last
};

class PatientWait {
 public:
  explicit PatientWait(WaitHabit& habit) : habit_(habit) {}

  /// Something came.
  void moved() noexcept;
  /// Returns true where the caller should look again at once; false: it should sleep.
  [[nodiscard]] bool spin() noexcept;
  /// Sleeps until a descriptor is ready, for `limit` at most.
  void block(std::vector<pollfd>& fds, std::chrono::nanoseconds limit) noexcept;

 private:
  WaitHabit& habit_;
  bool is_spinning_ = false;
  bool has_given_up_ = false;  // until something comes
  std::chrono::steady_clock::time_point end_{};
};

}  // namespace lockstep::wire
