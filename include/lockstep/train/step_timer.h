// SPDX-License-Identifier: Apache-2.0
// StepTimer: measures the training steps of given settings, without a run. `lockstep tune` compares these times.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The options of a StepTimer.
struct StepTimerOptions {
  bool load = true;  ///< false: every step reuses the first batch, and nothing is loaded
};

/// Times training steps with its own network, loader, replicas and optimizer, created as the Trainer creates them. It
/// does not evaluate, print or write. The learning rate is 0, so every step computes with the same weights.
///
/// Lifetime: the task outlives it.
/// Example:  lockstep::StepTimer timer{job, task, config, task.make_dataset(config.data.train)};
///           const double seconds = timer.run(10) / 10;
class StepTimer {
 public:
  /// In `config`, replicas and threads may be 0, as for a run, but batch_size must be a number.
  /// Collective: yes.
  /// Throws:     the UsageErrors of the Trainer; UsageError if there are too few samples for a full batch.
  StepTimer(const Job& job, Task& task, const TrainConfig& config, const std::shared_ptr<Dataset>& dataset,
            StepTimerOptions options = {});
  ~StepTimer();
  StepTimer(StepTimer&&) noexcept;
  StepTimer& operator=(StepTimer&&) noexcept;

  /// Runs `steps` steps and returns the slowest rank's time in seconds. Each call continues with the next batch.
  /// Collective: yes.  Blocks: yes.
  [[nodiscard]] double run(std::int64_t steps);

  /// Runs a step on a GPU, and returns the operators that made the host wait for it, in order, excluding the timer's
  /// own read of the loss. The list is empty if steps are replayed (cuda_graph). Collective: yes. Throws: UsageError
  /// without a GPU.
  [[nodiscard]] std::vector<std::string> waits();

  /// Returns the network's parameters by name. Lifetime: the timer outlives them.
  [[nodiscard]] NamedTensors parameters() const;
  /// Returns the total number of elements in the parameters.
  [[nodiscard]] std::int64_t parameter_count() const;

  /// Returns the sizes of the gradient buckets (DistributedDataParallel::bucket_bytes()).
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;

  /// Stops the loader, which would slow down another timer; the next run() starts it again.
  void rest();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
