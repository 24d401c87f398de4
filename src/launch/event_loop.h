// SPDX-License-Identifier: Apache-2.0
// One turn of a loop over descriptors: waits until some are ready, and calls the act of each of them.
#pragma once

#include <poll.h>
#include <time.h>

#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

namespace lockstep::launch {

/// A new one for each turn. Owned by one thread.
class EventLoop {
 public:
  /// `act` is called in the order of these calls when `fd` is ready; an `fd` below 0 never is.
  void add(int fd, short events, std::function<void()> act) {
    entries_.push_back({fd, events, 0});
    acts_.push_back(std::move(act));
  }

  /// Blocks: until a descriptor is ready and its act is done, or `timeout_ms` have passed; -1: for ever.
  void turn(int timeout_ms) {
    if (::poll(entries_.data(), entries_.size(), timeout_ms) < 0 && errno != EINTR) look_at_all();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].revents != 0) acts_[i]();
    }
  }

 private:
  // The limit of files was lowered meanwhile, or memory is short: our descriptors can still be read, without waiting
  // for them.
  void look_at_all() {
    const timespec nap{0, 10'000'000};
    ::nanosleep(&nap, nullptr);
    for (pollfd& entry : entries_) entry.revents = entry.fd >= 0 ? entry.events : 0;
  }

  std::vector<pollfd> entries_;
  std::vector<std::function<void()>> acts_;
};

}  // namespace lockstep::launch
