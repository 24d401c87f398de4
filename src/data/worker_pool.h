// SPDX-License-Identifier: Apache-2.0
// The loader's threads: each takes tasks of the stream under way and hands over what it made.
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

/// Makes what a task says and starts the copy to the device; what it throws is in the result.
[[nodiscard]] BatchOutcome make(const BatchSource& source, const BatchTask& task, const std::atomic<bool>& cancelled,
                                Progress& progress) noexcept;

/// Lifetime: threads share its state, so that one which hangs in a sample may be left behind.
class WorkerPool {
 public:
  /// Throws: ResourceError where not all threads start.
  WorkerPool(BatchSource source, c10::Device device, std::int64_t workers);
  /// Ends the threads and waits for the samples being loaded; after abandon() it waits for nobody.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// From here on the threads work for `stream`; null: they rest.
  void work_for(std::shared_ptr<EpochStream> stream);
  void abandon() noexcept { abandoned_ = true; }

  struct Slow {
    std::size_t worker = 0;
    std::int64_t index = -1;
    Seconds since{0};
  };
  /// Who is making the batch of `step`, and at which sample it is.
  [[nodiscard]] std::optional<Slow> find(std::int64_t step) const;

 private:
  struct Shared {
    BatchSource source;
    c10::Device device{c10::kCPU};
    std::mutex mutex;
    std::condition_variable wake;
    std::shared_ptr<EpochStream> stream;
    std::uint64_t passes = 0;  ///< how many there have been: a thread that has ended one waits for the next
    bool stopping = false;
    std::vector<std::unique_ptr<Progress>> progress;  ///< one a thread
  };
  static void work(const std::shared_ptr<Shared>& shared, Progress& progress) noexcept;
  void stop() noexcept;

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
  bool abandoned_ = false;
};

}  // namespace lockstep::data
