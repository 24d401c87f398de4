// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/async_saver.h"

#include <ATen/record_function.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "checkpoint/save/state_copy.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/tensor/device.h"

namespace lockstep {

class AsyncSaver::Impl {
 public:
  Impl() {
    thread_ = start_thread("that writes checkpoints", [this] { work(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      leaves_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (!error_) return;
    try {
      std::rethrow_exception(error_);
    } catch (const PeerError& error) {
      log::warn("{}", error.what());  // what ended the run is said by others
    } catch (const std::exception& error) {
      log::error("{}", error.what());
    } catch (...) {
      log::error("a checkpoint was not saved");
    }
  }

  void begin(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
    }
    changed_.notify_all();
  }

  [[nodiscard]] bool is_busy() {
    const std::lock_guard lock(mutex_);
    return static_cast<bool>(task_);
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !task_; });
  }

  [[nodiscard]] bool has_failed() {
    const std::lock_guard lock(mutex_);
    return static_cast<bool>(error_);
  }

  void check() {
    std::exception_ptr error;
    {
      const std::lock_guard lock(mutex_);
      error = std::exchange(error_, nullptr);
    }
    if (error) std::rethrow_exception(error);
  }

  checkpoint::StateCopy copy;

 private:
  void work() {
    tensor::adopt_device();  // page-locked memory belongs to the current one
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return task_ || leaves_; });
      if (!task_) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        RECORD_USER_SCOPE("the checkpoint writer");
        task_();  // not changed by others while it is set
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error) error_ = error;
      task_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> task_;  ///< under way where it is set
  std::exception_ptr error_;
  bool leaves_ = false;
  std::thread thread_;
};

AsyncSaver::AsyncSaver() : impl_(std::make_unique<Impl>()) {}
AsyncSaver::~AsyncSaver() = default;

void AsyncSaver::reserve(const StateParts& parts) {
  wait();
  impl_->begin([this, parts] { impl_->copy.reserve(parts); });
}

void AsyncSaver::save(const StateParts& parts, std::function<void(const StateParts&)> write) {
  wait();
  const StateParts& copy = impl_->copy.take(parts);
  impl_->begin([&copy, write = std::move(write)] { write(copy); });
}

bool AsyncSaver::is_busy() const { return impl_->is_busy(); }

bool AsyncSaver::has_failed() const { return impl_->has_failed(); }

void AsyncSaver::check() { impl_->check(); }

void AsyncSaver::wait() {
  impl_->wait();
  impl_->check();
}

}  // namespace lockstep
