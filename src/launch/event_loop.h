// SPDX-License-Identifier: Apache-2.0
// One iteration of a loop over descriptors: waits until some are ready, and calls each one's action.
#pragma once

#include <poll.h>
#include <time.h>

#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

namespace lockstep::launch {

/// Create a new object for each iteration. Owned by one thread.
class EventLoop {
 public:
  /// Adds a descriptor. The actions of ready descriptors run in the order of add(); an `fd` below 0 is never ready.
  void add(int fd, short events, std::function<void()> act) {
    entries_.push_back({fd, events, 0});
    acts_.push_back(std::move(act));
  }

  /// Waits once and calls the actions. Blocks: until a descriptor is ready or `timeout_ms` (-1: no limit) have passed.
  void turn(int timeout_ms) {
    if (::poll(entries_.data(), entries_.size(), timeout_ms) < 0 && errno != EINTR) look_at_all();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].revents != 0) acts_[i]();
    }
  }

 private:
  // poll() fails if the limit on open files was lowered or memory ran out. The descriptors can still be read without
  // waiting, so this function treats all of them as ready.
  void look_at_all() {
    const timespec nap{0, 10'000'000};
    ::nanosleep(&nap, nullptr);
    for (pollfd& entry : entries_) entry.revents = entry.fd >= 0 ? entry.events : 0;
  }

  std::vector<pollfd> entries_;
  std::vector<std::function<void()>> acts_;
};

}  // namespace lockstep::launch
