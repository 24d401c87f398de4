// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_threads.h"

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <fmt/format.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/base/resources.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/threads.h"
#include "lockstep/tensor/torch_version.h"
#include "parallel/caller_streams.h"

namespace lockstep::parallel {
namespace {

/// Sets the state that ThreadLocalState omits: autocast's dtypes and its weight cache. The cache is off, since a
/// thread's cached copies would outlive the caller's autocast region.
class AutocastOfCaller {
 public:
  AutocastOfCaller() : cpu_(state(c10::kCPU)), cuda_(state(c10::kCUDA)) {}
  void enter() const {
    tensor::set_autocast_state(c10::kCPU, cpu_);
    tensor::set_autocast_state(c10::kCUDA, cuda_);
  }

 private:
  static tensor::AutocastState state(c10::DeviceType device) {
    tensor::AutocastState found = tensor::autocast_state(device);
    found.weight_cache = false;
    return found;
  }
  tensor::AutocastState cpu_;
  tensor::AutocastState cuda_;
};

}  // namespace

class ReplicaThreads::Impl {
 public:
  Impl(int count, int libtorch_threads)
      : libtorch_threads_(libtorch_threads), errors_(static_cast<std::size_t>(count)) {
    const int before = at::get_num_threads();
    start(count);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ready_ == count; });
    tensor::set_threads_in_turn(before);  // the count also applies to threads that the process starts later
  }

  ~Impl() { end_threads(); }

  void run(int count, const std::function<void(int)>& body) {
    const at::ThreadLocalState caller;
    const AutocastOfCaller autocast;
    const CallerStreams streams;
    std::unique_lock lock(mutex_);
    for (std::exception_ptr& error : errors_) error = nullptr;
    const Task task{.body = body, .caller = caller, .autocast = autocast, .streams = streams, .count = count};
    task_ = &task;
    running_ = count;
    ++round_;
    work_.notify_all();
    done_.wait(lock, [this] { return running_ == 0; });
    task_ = nullptr;
    for (const std::exception_ptr& error : errors_) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  struct Task {
    const std::function<void(int)>& body;
    const at::ThreadLocalState& caller;
    const AutocastOfCaller& autocast;
    const CallerStreams& streams;
    int count;
  };

  void start(int count) {
    // Each thread sets libtorch's thread count. This rebuilds libtorch's pool, and hangs if threads run short.
    const int libtorch = 2 * (libtorch_threads_ - 1);
    if (libtorch > 0) require_threads(count + libtorch, "for the replicas and libtorch");
    try {
      threads_.reserve(static_cast<std::size_t>(count));
      for (int index = 0; index < count; ++index) {
        threads_.push_back(
            start_thread(fmt::format("for replica {} of {}", index + 1, count), [this, index] { loop(index); }));
      }
    } catch (...) {
      end_threads();
      throw;
    }
  }

  void end_threads() noexcept {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void loop(int index) noexcept {
    tensor::adopt_device();
    (void)at::get_num_threads();  // the first call in a thread gives it the process's thread count
    tensor::set_threads_in_turn(libtorch_threads_);
    std::unique_lock lock(mutex_);
    ++ready_;
    done_.notify_all();
    for (std::uint64_t seen = 0;;) {
      work_.wait(lock, [&] { return closed_ || round_ != seen; });
      if (closed_) return;
      seen = round_;
      if (task_ == nullptr || index >= task_->count) continue;
      const Task task = *task_;
      lock.unlock();
      std::exception_ptr error = execute(task, index);
      lock.lock();
      errors_[static_cast<std::size_t>(index)] = std::move(error);
      if (--running_ == 0) done_.notify_all();
    }
  }

  static std::exception_ptr execute(const Task& task, int index) noexcept {
    const at::ThreadLocalStateGuard state(task.caller);
    task.autocast.enter();
    task.streams.enter();
    try {
      task.body(index);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const int libtorch_threads_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  int ready_ = 0;
  int running_ = 0;
  std::uint64_t round_ = 0;
  bool closed_ = false;
  const Task* task_ = nullptr;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

ReplicaThreads::ReplicaThreads(int count, int libtorch_threads)
    : impl_(std::make_unique<Impl>(count, libtorch_threads)) {}
ReplicaThreads::~ReplicaThreads() = default;
void ReplicaThreads::run(int count, const std::function<void(int)>& body) { impl_->run(count, body); }

}  // namespace lockstep::parallel
