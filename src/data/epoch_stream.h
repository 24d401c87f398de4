// SPDX-License-Identifier: Apache-2.0
// One epoch in progress: tasks are taken in order, and results are returned in that order, not in the order of
// completion.
#pragma once

#include <c10/core/Event.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/feed.h"
#include "lockstep/base/clock.h"

namespace lockstep::data {

/// The result of one task: a batch, or the error in its place.
struct BatchOutcome {
  std::optional<MadeBatch> made;
  std::optional<c10::Event> copied;  ///< the event that marks completion of the copy to a device
  std::exception_ptr error;
  std::int64_t failed_index = -1;  ///< index of the sample that threw
};

/// Shared by the loop and its workers. Thread-safe: yes.
class EpochStream {
 public:
  /// `depth` is the maximum number of batches in progress or waiting; 0 if there are no workers.
  EpochStream(std::unique_ptr<Feed> feed, std::int64_t first, std::int64_t depth);

  /// Returns the next task, once there is room for its batch; none at the end and after cancel(). An error of the
  /// stream takes the place of the batch, and the stream ends there. Blocks: yes.
  std::optional<BatchTask> take_task();
  /// Returns the next task without waiting for room. Only for a single consumer.
  std::optional<BatchTask> take_task_alone();
  void hand_over(std::int64_t step, BatchOutcome made);
  enum class Wait { kReady, kEnded, kTimeout };
  /// Waits until the next batch is ready, or until it is certain that there is none. A `limit` of 0 means forever. Time
  /// during which the whole process was stopped (Ctrl-Z, Slurm's suspend) does not count.
  [[nodiscard]] Wait wait(Seconds limit);
  /// Returns the batch or error; call it once after each kReady.
  [[nodiscard]] BatchOutcome take();

  /// Returns true if the loop has taken the last batch, and the end is known.
  [[nodiscard]] bool at_end();
  /// Wakes all waiting threads and ends the stream early.
  void cancel() noexcept;
  [[nodiscard]] const std::atomic<bool>& cancelled() const noexcept { return cancelled_; }
  /// Returns the number of batches that the loop has taken, including those before `first`.
  [[nodiscard]] std::int64_t consumed() const noexcept { return consumed_; }

 private:
  void end_with(std::exception_ptr error);

  std::unique_ptr<Feed> feed_;
  std::mutex feed_mutex_;  ///< held while a task is read, so that steps are read in order
  std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable batch_;
  std::vector<std::optional<BatchOutcome>> ring_;
  std::int64_t end_;  ///< number of steps, once known
  std::int64_t claimed_;
  std::int64_t consumed_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace lockstep::data
