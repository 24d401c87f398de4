// SPDX-License-Identifier: Apache-2.0
// Checks the ranks of this node periodically while they run. It finds sections that take too long, long work that other
// ranks have to wait for, waits worth reporting (lockstep/flight/watch.h), and idle programs that do not use Lockstep.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "launch/hangs/hang.h"
#include "launch/hangs/silence.h"
#include "launch/nodes/long_work.h"
#include "lockstep/base/awake_clock.h"
#include "lockstep/base/clock.h"
#include "lockstep/flight/watch.h"

namespace lockstep::launch {

/// Watches the ranks of one node. Owned by the agent's thread.
class HangWatch {
 public:
  using MakeLink = std::function<std::unique_ptr<LongWorkLink>(const char* topic)>;
  /// `make_link` creates a link to the other nodes, or returns null if there are none.
  explicit HangWatch(MakeLink make_link) : make_link_(std::move(make_link)), link_(make_link_("long_work")) {}

  /// Returns the time of the next check.
  [[nodiscard]] TimePoint due() const { return due_; }
  /// Ends the checks, since the ranks are being stopped.
  void end() { due_ = TimePoint::max(); }
  /// Checks the ranks, and returns the finding about a rank that has been in a section for too long. `output` is a
  /// count that grows with the ranks' output. Cost: about 10 us per rank.
  [[nodiscard]] std::optional<FailureRecord> look(TimePoint now, const std::vector<WatchedRank>& ranks,
                                                  std::uint64_t output);

 private:
  /// Makes the ranks wait for the limit of a collective from `now` on: the rank that they wait for still has its step
  /// to do after its long work.
  void be_patient(TimePoint now, const std::vector<WatchedRank>& ranks, std::int64_t timeout_ns);
  void say(const std::optional<flight::Stall>& stall, std::int64_t now_ns, std::int64_t timeout_ns);
  void watch_silence(TimePoint awake, const std::vector<WatchedRank>& ranks, std::uint64_t output);
  [[nodiscard]] bool others_are_active(std::chrono::nanoseconds silence);

  MakeLink make_link_;
  std::unique_ptr<LongWorkLink> link_;
  std::unique_ptr<LongWorkLink> activity_;  // carries the activity of ranks that do not use Lockstep between nodes
  SilenceWatch silence_;
  std::optional<TimePoint> without_ring_since_;
  TimePoint due_{};
  std::chrono::nanoseconds interval_ = std::chrono::seconds(1);
  AwakeTime awake_{
      std::chrono::seconds(1)};  // time excluding stops of the launcher, which most likely stop its ranks too
  TimePoint watched_since_{};
  std::int64_t stall_ns_ = 0;     // start of the last reported wait
  std::int64_t say_next_ns_ = 0;  // time to report it again
};

}  // namespace lockstep::launch
