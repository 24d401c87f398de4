// SPDX-License-Identifier: Apache-2.0
// The loader's threads: each takes tasks from the current stream and hands over their batches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/epoch_stream.h"

namespace lockstep::data {

/// Builds the batch of a task and starts the copy to the device; errors are in the result.
[[nodiscard]] BatchOutcome make(const BatchSource& source, const BatchTask& task, const std::atomic<bool>& cancelled,
                                Progress& progress) noexcept;

/// The threads. Lifetime: they share the pool's state, so a thread that hangs on a sample can be abandoned.
class WorkerPool {
 public:
  /// Throws: ResourceError if not all threads start.
  WorkerPool(BatchSource source, c10::Device device, std::int64_t workers);
  /// Stops the threads and waits for the samples being loaded; after abandon() it does not wait.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Makes the threads work for `stream` from now on; if it is null, they wait.
  void work_for(std::shared_ptr<EpochStream> stream);
  void abandon() noexcept { abandoned_ = true; }

  struct Slow {
    std::size_t worker = 0;
    std::int64_t index = -1;
    Seconds since{0};
  };
  /// Finds the worker that is building the batch of `step`, and its current sample.
  [[nodiscard]] std::optional<Slow> find(std::int64_t step) const;

 private:
  struct Shared {
    BatchSource source;
    c10::Device device{c10::kCPU};
    std::mutex mutex;
    std::condition_variable wake;
    std::shared_ptr<EpochStream> stream;
    std::uint64_t passes = 0;  ///< number of passes so far; a thread that has finished a pass waits for the next
    bool stopping = false;
    std::vector<std::unique_ptr<Progress>> progress;  ///< one for each thread
  };
  static void work(const std::shared_ptr<Shared>& shared, Progress& progress) noexcept;
  void stop() noexcept;

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  bool abandoned_ = false;
};

}  // namespace lockstep::data
