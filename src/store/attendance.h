// SPDX-License-Identifier: Apache-2.0
// A client's heartbeat, and the values that it left in case it is lost.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "store/stepped_timer.h"
#include "store/wire.h"

namespace lockstep::store {

/// Owned by the server's thread.
class Attendance {
 public:
  explicit Attendance(const asio::any_io_executor& executor) : silence_(executor) {}

  /// Takes a request to attend, and calls `on_silence` if no other follows in time. Returns false if it is malformed or
  /// `may_write` refuses one of its keys.
  template <class MayWrite>
  bool begin(FrameReader& request, MayWrite&& may_write, std::function<void()> on_silence) {
    end();
    const auto limit = std::chrono::milliseconds(request.number());
    auto keys = request.strings();
    std::string will = request.string();
    if (!request.complete() || !std::all_of(keys.begin(), keys.end(), may_write)) return false;
    keys_ = std::move(keys);
    will_ = std::move(will);
    silence_.start(std::clamp<std::chrono::milliseconds>(limit, std::chrono::milliseconds(1), kLongestWait),
                   std::move(on_silence));
    return true;
  }

  /// Ends the attendance of a client that has left or is lost. Returns the keys to set; none if it did not attend.
  std::vector<std::string> end() {
    silence_.cancel();
    return std::exchange(keys_, {});
  }

  [[nodiscard]] const std::string& will() const { return will_; }
  [[nodiscard]] std::size_t bytes() const { return will_.size() + bytes_of(keys_); }

 private:
  SteppedTimer silence_;
  std::vector<std::string> keys_;  // empty: the client does not attend
  std::string will_;
};

}  // namespace lockstep::store
