// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/async_saver.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/formats/stream_copy.h"
#include "lockstep/base/error.h"
#include "lockstep/base/invariant.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/tensor/device.h"

namespace lockstep {
namespace {

/// Returns true if the tensor's bytes fill its memory without a gap, so that one memcpy can copy it.
bool is_dense_on_cpu(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() &&
         !tensor.is_conj() && !tensor.is_neg();
}

bool fits(const at::Tensor& memory, const at::Tensor& tensor) {
  return memory.defined() && memory.scalar_type() == tensor.scalar_type() && memory.sizes() == tensor.sizes() &&
         (memory.strides() == tensor.strides() || !is_dense_on_cpu(tensor));
}

at::Tensor make_room(const at::Tensor& tensor) {
  auto options = at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU);
  if (tensor.is_cuda()) options = options.pinned_memory(true);
  const bool dense = tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense();
  return dense ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
               : at::empty_strided(tensor.sizes(), tensor.contiguous().strides(), options);
}

/// Adds the copy to `plain` if memcpy can do it, else starts it.
void copy_into(at::Tensor& memory, const at::Tensor& tensor, std::vector<checkpoint::CopyJob>& plain) {
  if (is_dense_on_cpu(tensor)) {
    plain.push_back({static_cast<char*>(memory.data_ptr()), static_cast<const char*>(tensor.data_ptr()),
                     static_cast<std::size_t>(tensor.nbytes())});
  } else {
    memory.copy_(tensor.detach(), /*non_blocking=*/!tensor.device().is_cpu());
  }
}

/// Waits for the asynchronous copies from GPUs.
void finish_copies(const std::set<std::string>& devices) {
  for (const std::string& name : devices) {
    const c10::Device device(name);
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  }
}

/// A copy of states in memory that all saves reuse, because they all have the same tensors. It belongs to one thread at
/// a time.
class StateCopy {
 public:
  /// Allocates and touches memory for all tensors of `parts`, so that a copy does not wait for page faults.
  void reserve(const StateParts& parts);

  /// Returns a copy of `parts`: on the CPU, dense, in the same layout. It is valid until the next take() or reserve().
  /// Blocks: until the GPUs have delivered their tensors.
  const StateParts& take(const StateParts& parts);

 private:
  at::Tensor& room_for(const std::string& key, const at::Tensor& tensor);

  std::map<std::string, at::Tensor> memory_;  ///< memory by "state/entry"
  StateParts copy_;
};

at::Tensor& StateCopy::room_for(const std::string& key, const at::Tensor& tensor) {
  at::Tensor& memory = memory_[key];
  if (!fits(memory, tensor)) memory = make_room(tensor);
  return memory;
}

void StateCopy::reserve(const StateParts& parts) {
  for (const auto& [state, part] : parts) {
    for (const auto& [name, value] : part.entries) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor == nullptr || !tensor->defined()) continue;
      at::Tensor& memory = room_for(state + "/" + name, *tensor);
      std::memset(memory.data_ptr(), 0, memory.nbytes());
    }
  }
}

const StateParts& StateCopy::take(const StateParts& parts) {
  copy_.clear();
  std::set<std::string> devices;
  std::vector<checkpoint::CopyJob> plain;
  for (const auto& [state, part] : parts) {
    StatePart& copy = copy_[state];
    copy.slices = part.slices;
    for (const auto& [name, value] : part.entries) {
      const auto* tensor = std::get_if<at::Tensor>(&value);
      // The writer reports entries that cannot be saved (an undefined or sparse tensor).
      if (tensor == nullptr || !tensor->defined() || tensor->layout() != at::kStrided || tensor->is_meta()) {
        copy.entries[name] = value;
        continue;
      }
      at::Tensor& memory = room_for(state + "/" + name, *tensor);
      copy_into(memory, *tensor, plain);
      if (!tensor->device().is_cpu()) devices.insert(tensor->device().str());
      copy.entries[name] = memory;
    }
  }
  checkpoint::stream_copy(plain);
  finish_copies(devices);
  return copy_;
}

}  // namespace

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
      log::warn("{}", error.what());  // only a warning: the cause of the run's end is reported elsewhere
    } catch (const std::exception& error) {
      log::error("{}", error.what());
    } catch (...) {
      log::error("a checkpoint was not saved");
    }
  }

  void begin(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      LOCKSTEP_INVARIANT(!task_ && !leaves_, "a save begins while {}",
                         leaves_ ? "the writer is ending" : "another is being written");
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

  StateCopy copy;

 private:
  void work() {
    tensor::adopt_device();  // page-locked memory belongs to the current device
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return task_ || leaves_; });
      if (!task_) return;
      lock.unlock();
      std::exception_ptr error;
      try {
        RECORD_USER_SCOPE("the checkpoint writer");
        task_();  // other threads do not change it while it is set
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
  std::function<void()> task_;  ///< the running task; empty if there is none
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
