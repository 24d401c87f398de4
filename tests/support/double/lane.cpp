// SPDX-License-Identifier: Apache-2.0
#include "support/double/lane.h"

#include <cstdlib>
#include <thread>
#include <utility>

namespace lockstep::testing::make_believe {
namespace {

/// The maximum number of work items in the queue, by default as in the queue of a real stream.
std::size_t most_work() {
  const char* text = std::getenv("LOCKSTEP_DOUBLE_QUEUE");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 1024 : static_cast<std::size_t>(std::atoi(text));
}

}  // namespace

void Lane::push(std::function<void()> work) {
  static const std::size_t most = most_work();
  std::unique_lock lock(mutex_);
  if (!std::exchange(started_, true)) std::thread([this] { loop(); }).detach();
  changed_.wait(lock, [this] { return work_.size() < most; });
  work_.push_back(std::move(work));
  ++pushed_;
  changed_.notify_all();
}

std::uint64_t Lane::pushed() {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

void Lane::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

bool Lane::reached(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  rethrow();
  return done_ >= count;
}

void Lane::wait(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= count; });
  rethrow();
}

bool Lane::is_idle() {
  const std::lock_guard lock(mutex_);
  return work_.empty() && !busy_;
}

void Lane::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !work_.empty() && !busy_; });
    std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;
    lock.lock();
    if (!error_) error_ = error;
    busy_ = false;
    ++done_;
    changed_.notify_all();
  }
}

Lane::Turn::Turn(Lane& lane) : lane_(lane) {
  std::unique_lock lock(lane_.mutex_);
  lane_.changed_.wait(lock, [this] { return lane_.work_.empty() && !lane_.busy_; });
  lane_.rethrow();
  lane_.busy_ = true;
  ++lane_.pushed_;
}

Lane::Turn::~Turn() {
  const std::lock_guard lock(lane_.mutex_);
  lane_.busy_ = false;
  ++lane_.done_;
  lane_.changed_.notify_all();
}

}  // namespace lockstep::testing::make_believe
