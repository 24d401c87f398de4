// SPDX-License-Identifier: Apache-2.0
// Runs a group's collectives in order: on one communication thread, or on the thread that waits for an operation if the
// queue was idle.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/core/backend.h"
#include "comm/core/operation.h"

namespace lockstep::comm {

class OperationQueue;

/// One submitted collective, with the objects that it keeps alive.
class QueuedOperation final : public Operation {
 public:
  QueuedOperation(Collective collective, std::array<at::Tensor, 2> tensors, std::function<void()> finish)
      : collective_(std::move(collective)), tensors_(std::move(tensors)), finish_(std::move(finish)) {}

  /// Returns the operation's number in the queue, which submit() sets.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return collective_.call.sequence; }
  void wait() override;
  [[nodiscard]] bool is_done() const noexcept override { return done_.load(std::memory_order_acquire); }

 private:
  friend class OperationQueue;
  Collective collective_;
  std::array<at::Tensor, 2> tensors_;  ///< the tensors that it reads and writes
  std::function<void()> finish_;       ///< copies a staged result back; may be null
  std::shared_ptr<OperationQueue> queue_;
  std::int64_t called_ns_ = 0;              ///< time of the submission
  std::atomic<std::int64_t> waited_ns_{0};  ///< time at which a thread first began to wait for it; 0 if none has
  std::exception_ptr error_;                ///< the operation's error, written before done_
  std::atomic<bool> done_{false};
};

/// An operation is pending (in `pending_`), then running (it is the front of `pending_` and `running_` is true), then
/// done. The communication thread or the thread that waits for the front operation runs it.
///
/// `mutex_` guards everything declared below it except `thread_`. It is not held while the runner works: `running_`
/// prevents a second run(). An operation's `error_` is written under the mutex before `done_` becomes true, and never
/// changes again; a thread that has seen is_done() may read the result and the error without the lock. `failure_` is
/// never cleared: after the first error, every pending and every later operation fails. After close() no operation
/// starts.
///
/// Thread-safe: yes.
class OperationQueue : public std::enable_shared_from_this<OperationQueue> {
 public:
  OperationQueue(std::unique_ptr<Runner> runner, std::chrono::milliseconds timeout)
      : runner_(std::move(runner)), timeout_(timeout), number_(next_number()) {}

  /// Starts the thread. Call it once, after construction (the thread shares the queue).
  void start();

  /// Numbers the operation and appends it. Blocks: no.
  void submit(const std::shared_ptr<QueuedOperation>& operation);
  void wait(QueuedOperation& operation);

  /// Fails all operations, here and on the peers.
  void abort(const std::string& reason) noexcept;

  /// Throws: the failure that ends all later operations, if there is one. Blocks: no.
  void check();

  /// Ends the thread; operations that have not run fail. Waits a bounded time for an operation under way.
  void close(bool orderly) noexcept;

  [[nodiscard]] Runner& runner() noexcept { return *runner_; }
  /// Returns the queue's number among this process's groups.
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] static int next_number() noexcept;
  void thread_loop() noexcept;
  void sleep_until_work(Lock& lock);
  void run_front(Lock& lock, bool caller_waits);
  [[nodiscard]] std::exception_ptr run_operation(QueuedOperation& operation) noexcept;

  std::unique_ptr<Runner> runner_;
  const std::chrono::milliseconds timeout_;
  const int number_;
  std::mutex mutex_;
  std::condition_variable work_;      ///< wakes the thread: there is an operation to run, or the queue closes
  std::condition_variable finished_;  ///< wakes waiters: an operation is done
  std::deque<std::shared_ptr<QueuedOperation>> pending_;
  std::uint64_t sequence_ = 0;
  std::uint64_t inline_runs_ = 0;
  bool running_ = false;
  bool asleep_ = false;  ///< the thread waits for a notification
  bool closed_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace lockstep::comm
