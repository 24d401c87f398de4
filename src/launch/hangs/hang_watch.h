// SPDX-License-Identifier: Apache-2.0
// Looks at the ranks of this node again and again while they run: sections that take too long, long work for which the
// others have to be patient, waits worth a line (lockstep/flight/watch.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "launch/hangs/hang.h"
#include "launch/nodes/long_work.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/flight/watch.h"

namespace lockstep::launch {

/// Owned by the agent's thread.
class HangWatch {
 public:
  /// `link`: to other nodes; null where there are none.
  explicit HangWatch(std::unique_ptr<LongWorkLink> link) : link_(std::move(link)) {}

  /// When to look next.
  [[nodiscard]] TimePoint due() const { return due_; }
  /// The ranks are being stopped: it does not look again.
  void end() { due_ = TimePoint::max(); }
  /// Returns what it has found of a rank that has been longer in a section than it may be. It takes some 10 us a rank.
  [[nodiscard]] std::optional<Finding> look(TimePoint now, const std::vector<WatchedRank>& ranks);

 private:
  void be_patient(TimePoint now, const std::vector<WatchedRank>& ranks, bool has_long_work);
  void say(const std::optional<flight::Stall>& stall, std::int64_t now_ns, std::int64_t timeout_ns);

  std::unique_ptr<LongWorkLink> link_;
  TimePoint due_{};
  std::chrono::nanoseconds interval_ = std::chrono::seconds(1);
  AwakeTime awake_{std::chrono::seconds(1)};  // its ranks were most likely stopped with the launcher
  TimePoint watched_since_{};
  std::int64_t stall_ns_ = 0;     // since when the wait lasts that was told last
  std::int64_t say_next_ns_ = 0;  // when to tell of it again
};

}  // namespace lockstep::launch
