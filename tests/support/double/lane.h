// SPDX-License-Identifier: Apache-2.0
// A stream's queue, whose work a thread runs in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>

namespace lockstep::testing::make_believe {

/// A queue and its thread, which exist for the life of the process.
class Lane {
 public:
  /// Adds work. Blocks: while LOCKSTEP_DOUBLE_QUEUE work items (1024 by default) are waiting.
  void push(std::function<void()> work);
  /// The number of work items added so far.
  [[nodiscard]] std::uint64_t pushed();
  /// True if the first `count` work items are done. Throws: the error of a work item, because a device reports errors
  /// later.
  [[nodiscard]] bool reached(std::uint64_t count);
  void wait(std::uint64_t count);
  [[nodiscard]] bool is_idle();

  /// During its lifetime the calling thread works in the lane's order: after all work queued so far, before all later
  /// work.
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
