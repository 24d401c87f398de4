// SPDX-License-Identifier: Apache-2.0
#include "data/epoch_stream.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/awake_clock.h"

namespace lockstep::data {

EpochStream::EpochStream(std::unique_ptr<Feed> feed, std::int64_t first, std::int64_t depth)
    : feed_(std::move(feed)),
      ring_(static_cast<std::size_t>(depth)),
      end_(feed_->end()),
      claimed_(first),
      consumed_(first) {}

std::optional<BatchTask> EpochStream::take_task() {
  const std::lock_guard reading(feed_mutex_);
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return cancelled_ || claimed_ >= end_ || claimed_ < consumed_ + std::ssize(ring_); });
    if (cancelled_ || claimed_ >= end_) return std::nullopt;
  }
  std::optional<BatchTask> task;
  try {
    task = feed_->next();
  } catch (...) {
    // The feed is still locked: the error takes the place of the batch, and no other worker gets this step.
    end_with(std::current_exception());
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  if (task) {
    ++claimed_;
  } else {
    end_ = std::min(end_, claimed_);
    batch_.notify_all();
  }
  return task;
}

std::optional<BatchTask> EpochStream::take_task_alone() {
  std::optional<BatchTask> task = feed_->next();
  if (task) ++consumed_;
  return task;
}

void EpochStream::hand_over(std::int64_t step, BatchOutcome made) {
  const std::lock_guard lock(mutex_);
  if (cancelled_) return;
  ring_[static_cast<std::size_t>(step) % ring_.size()] = std::move(made);
  batch_.notify_one();
}

void EpochStream::end_with(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (cancelled_ || claimed_ >= end_) return;
  ring_[static_cast<std::size_t>(claimed_) % ring_.size()] =
      BatchOutcome{std::nullopt, std::nullopt, std::move(error), -1};
  end_ = ++claimed_;
  batch_.notify_one();
}

EpochStream::Wait EpochStream::wait(Seconds limit) {
  std::unique_lock lock(mutex_);
  const auto there = [this] {
    return consumed_ >= end_ || ring_[static_cast<std::size_t>(consumed_) % ring_.size()].has_value();
  };
  if (limit.count() <= 0) batch_.wait(lock, there);
  const auto longest = std::min<Seconds>(limit, std::chrono::hours(24 * 365));
  const bool is_there = wait_awake(batch_, lock, std::chrono::duration_cast<std::chrono::nanoseconds>(longest), there);
  if (!is_there) return Wait::kTimeout;
  return consumed_ >= end_ ? Wait::kEnded : Wait::kReady;
}

BatchOutcome EpochStream::take() {
  const std::lock_guard lock(mutex_);
  auto& slot = ring_[static_cast<std::size_t>(consumed_) % ring_.size()];
  BatchOutcome made = std::move(*slot);
  slot.reset();
  ++consumed_;
  room_.notify_one();
  return made;
}

bool EpochStream::at_end() {
  const std::lock_guard lock(mutex_);
  return consumed_ >= end_;
}

void EpochStream::cancel() noexcept {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  room_.notify_all();
}

}  // namespace lockstep::data
