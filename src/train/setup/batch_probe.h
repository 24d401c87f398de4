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
#include "train/settings/graph_choice.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// The parts of a run before its batch size is known. Lifetime: task and config outlive it.
struct Untried {
  Job job;
  Task& task;
  const TrainConfig& config;  ///< replicas and threads are decided
  std::shared_ptr<Dataset> dataset;
  std::function<std::shared_ptr<TaskNet>()> make_net;  ///< makes a fresh network on the device
};

/// Returns how many copies of all gradients this rank's buckets hold besides the gradients: one for each unfinished
/// branch of the sum over its replicas; none for a single process with one replica. It is a pure function.
[[nodiscard]] int gradient_copies(int rank, int world, int replicas);

/// Returns the samples of a trial for a batch of `batch`: twice as many if steps are recorded as CUDA graphs. A
/// recording keeps its memory while a smaller last batch, or an evaluation, is computed without it. It is a pure
/// function.
[[nodiscard]] std::int64_t trial_size(const TrainConfig& config, const GraphPlace& place, std::int64_t batch);

/// Returns the first of `parameters` that together have at least 1 / `ranks` of all elements, as much as a rank's
/// optimizer state covers with ZeRO. It is a pure function.
[[nodiscard]] NamedTensors share_of(const NamedTensors& parameters, int ranks);

/// It belongs to the training thread.
class BatchProbe {
 public:
  /// Reads some samples. Collective: yes, if there are several ranks. No other function here is collective.
  explicit BatchProbe(const Untried& run);

  /// Runs two steps (forward, backward, optimizer) of each replica of this rank with `batch` samples, as the run will:
  /// with its device, precision, layout and number of accumulated batches, and as much memory as its buckets and its
  /// moving average need.
  /// Returns: false if memory ran out.
  /// Throws:  any other error of a step.
  [[nodiscard]] bool fits(std::int64_t batch);

  /// Returns the allocator's message when memory last ran out; empty: it never did.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  void train(std::int64_t batch);
  void train_replica(TaskNet& net, std::int64_t size, int batches);
  [[nodiscard]] Batch make_batch(std::int64_t size) const;

  Untried run_;
  std::shared_ptr<ProcessGroup> alone_;  ///< a group of this rank only; null: the job's group has no other rank
  ReplicaTeam team_;
  std::vector<Sample> samples_;
  std::string problem_;
};

}  // namespace lockstep::train
