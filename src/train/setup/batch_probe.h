// SPDX-License-Identifier: Apache-2.0
// One trial of `batch_size: auto`: whole steps of a network that is thrown away. Nothing in it communicates with other
// ranks, so that each may run out of memory alone.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/data/dataset.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// What a run is made of before its batch is known. Lifetime: task and config outlive it.
struct Untried {
  Job job;
  Task& task;
  const TrainConfig& config;  ///< with replicas and threads decided
  std::shared_ptr<Dataset> dataset;
  std::function<std::shared_ptr<TaskNet>()> make_net;  ///< a fresh network on the device
};

/// Copies of all gradients that this rank's buckets hold beside the gradients themselves: one for each unfinished
/// branch of the sum over its replicas; none where a process with one replica is alone. Pure function.
[[nodiscard]] int gradient_copies(int rank, int world, int replicas);

/// The samples that stand for a batch of `batch`: twice as many where steps are recorded as CUDA graphs. A recording
/// keeps its memory while a last batch that is not full, or an evaluation, is computed without it. Pure function.
[[nodiscard]] std::int64_t trial_size(const TrainConfig& config, const c10::Device& device, int world,
                                      std::int64_t batch);

/// The first of `parameters` that together have at least 1 / `ranks` of all elements: as much as the optimizer's state
/// of a rank covers with ZeRO. Pure function.
[[nodiscard]] NamedTensors share_of(const NamedTensors& parameters, int ranks);

/// Owned by the training thread.
class BatchProbe {
 public:
  /// Reads some samples. Collective: yes, where there are several ranks; nothing else here is.
  explicit BatchProbe(const Untried& run);

  /// Two steps - forward, backward, optimizer - of each replica of this rank with `batch` samples, as the run will do
  /// them: its device, precision and layout, its number of accumulated batches, as much memory as its buckets and its
  /// moving average.
  /// Returns: false where memory ran out.
  /// Throws:  whatever else goes wrong in a step.
  [[nodiscard]] bool fits(std::int64_t batch);

  /// The allocator's words when memory ran out last; empty: it never did.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  void train(std::int64_t batch);
  void train_replica(TaskNet& net, std::int64_t size, int batches);
  [[nodiscard]] Batch make_batch(std::int64_t size) const;

  Untried run_;
  std::shared_ptr<ProcessGroup> alone_;  ///< of this rank only; null: the job's has no other
  ReplicaTeam team_;
  std::vector<Sample> samples_;
  std::string problem_;
};

}  // namespace lockstep::train
