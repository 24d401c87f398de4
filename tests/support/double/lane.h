// SPDX-License-Identifier: Apache-2.0
// The queue of a stream: work that a thread does in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>

namespace lockstep::testing::make_believe {

/// It lives as long as the process, as its thread does.
class Lane {
 public:
  /// Blocks: while LOCKSTEP_DOUBLE_QUEUE pieces of work wait, 1024 where it is not set.
  void push(std::function<void()> work);
  /// How much work it has been given so far.
  [[nodiscard]] std::uint64_t pushed();
  /// Whether the first `count` are done. Throws: what one of them threw, as a device reports its error later.
  [[nodiscard]] bool reached(std::uint64_t count);
  void wait(std::uint64_t count);
  [[nodiscard]] bool is_idle();

  /// While it lives, the calling thread does work in the lane's order: after all that the lane has, before all that
  /// comes.
  class Turn {
   public:
    explicit Turn(Lane& lane);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Lane& lane_;
  };

 private:
  void loop();
  void rethrow() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  bool busy_ = false;
  bool started_ = false;
  std::exception_ptr error_;
};

}  // namespace lockstep::testing::make_believe
