// SPDX-License-Identifier: Apache-2.0
#include "data/worker_pool.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <utility>

#include "data/device_copy.h"
#include "lockstep/base/fault.h"
#include "lockstep/base/resources.h"
#include "lockstep/tensor/device.h"

namespace lockstep::data {
namespace {

void work_on(EpochStream& stream, const BatchSource& source, DeviceCopy& copy, Progress& progress) noexcept {
  while (true) {
    const std::optional<BatchTask> task = stream.take_task();
    if (!task) return;
    BatchOutcome made = make(source, *task, stream.cancelled(), progress);
    try {
      if (made.made) made.copied = copy.start(made.made->batch);
    } catch (...) {
      made = BatchOutcome{std::nullopt, std::nullopt, std::current_exception(), -1};
    }
    stream.hand_over(task->step, std::move(made));
  }
}

}  // namespace

BatchOutcome make(const BatchSource& source, const BatchTask& task, const std::atomic<bool>& cancelled,
                  Progress& progress) noexcept {
  BatchOutcome made;
  try {
    made.made = fault::in_section("the data set", [&] { return make_batch(source, task, cancelled, progress); });
  } catch (...) {
    made.error = std::current_exception();
    made.failed_index = progress.index.load(std::memory_order_relaxed);
  }
  progress.step.store(-1, std::memory_order_relaxed);
  progress.index.store(-1, std::memory_order_relaxed);
  return made;
}

WorkerPool::WorkerPool(BatchSource source, c10::Device device, std::int64_t workers)
    : shared_(std::make_shared<Shared>()) {
  shared_->source = std::move(source);
  shared_->device = device;
  for (std::int64_t i = 0; i < workers; ++i) shared_->progress.push_back(std::make_unique<Progress>());
  // Each worker sets libtorch's thread count when it starts, which rebuilds libtorch's pool and hangs if the system has
  // no threads left.
  const int libtorch = 2 * (at::get_num_threads() - 1);
  if (libtorch > 0) require_threads(static_cast<int>(workers) + libtorch, "for the loader workers and libtorch");
  try {
    threads_.reserve(static_cast<std::size_t>(workers));
    for (std::int64_t i = 0; i < workers; ++i) {
      threads_.push_back(start_thread(
          fmt::format("for loader worker {} of {}", i + 1, workers),
          [shared = shared_, mine = shared_->progress[static_cast<std::size_t>(i)].get()] { work(shared, *mine); }));
    }
  } catch (...) {
    stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() noexcept {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    if (shared_->stream) shared_->stream->cancel();
    shared_->wake.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (abandoned_) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

void WorkerPool::work_for(std::shared_ptr<EpochStream> stream) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->stream) shared_->stream->cancel();
  shared_->stream = std::move(stream);
  ++shared_->passes;
  shared_->wake.notify_all();
}

std::optional<WorkerPool::Slow> WorkerPool::find(std::int64_t step) const {
  for (std::size_t i = 0; i < shared_->progress.size(); ++i) {
    const Progress& each = *shared_->progress[i];
    if (each.step.load() != step) continue;
    const TimePoint since{TimePoint::duration(each.since_ns.load())};
    return Slow{i, each.index.load(), SystemClock::instance().now() - since};
  }
  return std::nullopt;
}

void WorkerPool::work(const std::shared_ptr<Shared>& shared, Progress& progress) noexcept {
  tensor::adopt_device();
  at::init_num_threads();  // the same count as in the main program: a sample must not depend on the thread that loads
                           // it
  DeviceCopy copy(shared->device);
  std::uint64_t done = 0;
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->wake.wait(lock, [&] { return shared->stopping || (shared->stream && shared->passes != done); });
    if (shared->stopping) return;
    const std::shared_ptr<EpochStream> stream = shared->stream;
    done = shared->passes;
    lock.unlock();
    work_on(*stream, shared->source, copy, progress);
    lock.lock();
  }
}

}  // namespace lockstep::data
