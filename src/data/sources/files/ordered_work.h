// SPDX-License-Identifier: Apache-2.0
// Runs work on several threads, and returns results in order. A window limits the number of results held. No torch
// header.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/resources.h"

namespace lockstep::data {

template <class T>
class OrderedWork {
 public:
  using Function = std::function<T(std::int64_t)>;

  /// Calls `function` for 0 .. count - 1 on `workers` threads.
  OrderedWork(std::int64_t count, std::int64_t workers, Function function)
      : count_(count), function_(std::move(function)), slots_(static_cast<std::size_t>(4 * workers)) {
    try {
      threads_.reserve(static_cast<std::size_t>(workers));
      for (std::int64_t i = 0; i < workers; ++i) threads_.push_back(start_thread("for loading", [this] { work(); }));
    } catch (...) {
      stop();
      throw;
    }
  }
  ~OrderedWork() { stop(); }
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;

  /// Returns the next result. Call it at most `count` times. Throws: the error of the call for this result; the next
  /// call may succeed.
  T next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(taken_);
    changed_.wait(lock, [&] { return slot.value || slot.fault; });
    const Slot result = std::exchange(slot, {});
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (result.fault) std::rethrow_exception(result.fault);
    return *result.value;
  }

 private:
  struct Slot {
    std::optional<T> value;
    std::exception_ptr fault;
  };

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Slot& slot_of(std::int64_t index) { return slots_[static_cast<std::size_t>(index) % slots_.size()]; }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] {
        return stopped_ || begun_ >= count_ || begun_ < taken_ + static_cast<std::int64_t>(slots_.size());
      });
      if (stopped_ || begun_ >= count_) return;
      const std::int64_t index = begun_++;
      lock.unlock();
      Slot result = run(index);
      lock.lock();
      slot_of(index) = std::move(result);
      changed_.notify_all();
    }
  }

  Slot run(std::int64_t index) noexcept {
    try {
      return {function_(index), nullptr};
    } catch (...) {
      return {std::nullopt, std::current_exception()};
    }
  }

  std::int64_t count_;
  Function function_;
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t begun_ = 0;
  std::int64_t taken_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::data
