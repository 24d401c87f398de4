// SPDX-License-Identifier: Apache-2.0
// A trial for `batch_size: auto`: complete steps of a temporary network. They do not communicate with other ranks, so
// that each rank may run out of memory independently of the others.
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

/// The parts of a run that exist before its batch size is known. Lifetime: task and config outlive it.
struct Untried {
  Job job;
  Task& task;
  const TrainConfig& config;  ///< settings with the final values of replicas and threads
  std::shared_ptr<Dataset> dataset;
  std::function<std::shared_ptr<TaskNet>()> make_net;  ///< creates a fresh network on the device
};

/// Returns the number of copies of all gradients that this rank's buckets hold in addition to the gradients: one for
/// each unfinished branch of the sum over its replicas; 0 for a single process with one replica. Pure function.
[[nodiscard]] int gradient_copies(int rank, int world, int replicas);

/// Returns the number of samples in a trial for a batch of `batch`: twice as many if steps are recorded as CUDA graphs.
/// A recording keeps its memory while a smaller last batch or an evaluation is computed. Pure function.
[[nodiscard]] std::int64_t trial_size(const TrainConfig& config, const GraphPlace& place, std::int64_t batch);

/// Returns as many of the first `parameters` as make up 1 / `ranks` of all elements, the part that a rank's optimizer
/// state covers under ZeRO. Pure function.
[[nodiscard]] NamedTensors share_of(const NamedTensors& parameters, int ranks);

/// Owned by the training thread.
class BatchProbe {
 public:
  /// Reads some samples. Collective: yes, if there are several ranks; the other functions are not collective.
  explicit BatchProbe(const Untried& run);

  /// Runs two steps (forward, backward, optimizer) of each replica of this rank with `batch` samples, with the run's
  /// device, precision, layout and number of accumulated batches, and with the memory that the run's buckets and moving
  /// average would need.
  /// Returns: false if memory ran out.
  /// Throws:  any other error of a step.
  [[nodiscard]] bool fits(std::int64_t batch);

  /// Returns the allocator's last out-of-memory message; empty if memory never ran out.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  void train(std::int64_t batch);
  void train_replica(TaskNet& net, std::int64_t size, int batches);
  [[nodiscard]] Batch make_batch(std::int64_t size) const;

  Untried run_;
  std::shared_ptr<ProcessGroup> alone_;  ///< a process group with only this rank; null if the job has only one rank
  ReplicaTeam team_;
  std::vector<Sample> samples_;
  std::string problem_;
};

}  // namespace lockstep::train
