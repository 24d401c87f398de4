// SPDX-License-Identifier: Apache-2.0
// The server's view of a client's heartbeat and will (see Presence).
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

/// Watches the heartbeat of one client. Only the server's thread uses it.
class Attendance {
 public:
  explicit Attendance(const asio::any_io_executor& executor) : silence_(executor) {}

  /// Reads a request with a heartbeat, and calls `on_silence` if the next one does not follow in time. Returns false if
  /// the request is malformed or `may_write` rejects one of its keys.
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

  /// Stops watching a client that has left or is lost. Returns the keys for its will; empty if it sent no heartbeat.
  std::vector<std::string> end() {
    silence_.cancel();
    return std::exchange(keys_, {});
  }

  [[nodiscard]] const std::string& will() const { return will_; }
  [[nodiscard]] std::size_t bytes() const { return will_.size() + bytes_of(keys_); }

 private:
  SteppedTimer silence_;
  std::vector<std::string> keys_;  // empty if the client sends no heartbeats
  std::string will_;
};

}  // namespace lockstep::store
