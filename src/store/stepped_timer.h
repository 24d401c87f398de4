// SPDX-License-Identifier: Apache-2.0
// A timer for the server that does not count time while the process is stopped.
#pragma once

#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace lockstep::store {

/// Splits a wait into steps. If the process is stopped during a step, only the step's planned length counts.
class StepCount {
 public:
  explicit StepCount(std::chrono::milliseconds limit)
      : left_(limit),
        step_(
            std::clamp<std::chrono::milliseconds>(limit / 16, std::chrono::milliseconds(1), std::chrono::minutes(1))) {}
  /// Returns the length of the next step; 0: the wait is over.
  [[nodiscard]] std::chrono::milliseconds next() {
    const auto step = std::clamp<std::chrono::milliseconds>(left_, std::chrono::milliseconds(0), step_);
    left_ -= step;
    return step;
  }

 private:
  std::chrono::milliseconds left_;
  std::chrono::milliseconds step_;
};

/// A timer that waits in steps. Only the server's thread uses it.
class SteppedTimer {
 public:
  explicit SteppedTimer(const asio::any_io_executor& executor) : timer_(executor) {}

  /// Calls `on_end` after `limit`, unless start() or cancel() comes first. `on_end` must keep the timer's owner alive.
  void start(std::chrono::milliseconds limit, std::function<void()> on_end) {
    cancel();
    step(StepCount(limit), number_, std::move(on_end));
  }
  void cancel() {
    ++number_;  // a step that has just ended is ignored
    timer_.cancel();
  }

 private:
  void step(StepCount count, std::uint64_t number, std::function<void()> on_end) {
    timer_.expires_after(count.next());
    timer_.async_wait([this, count, number, on_end = std::move(on_end)](std::error_code problem) mutable {
      if (problem || number != number_) return;
      if (StepCount(count).next().count() > 0) return step(count, number, std::move(on_end));
      on_end();
    });
  }

  asio::steady_timer timer_;
  std::uint64_t number_ = 0;
};

}  // namespace lockstep::store
