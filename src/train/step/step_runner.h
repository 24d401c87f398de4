// SPDX-License-Identifier: Apache-2.0
// One step of this rank's replicas: the forward and backward passes of their batches, and the reduction. It knows
// nothing about epochs, evaluations, saves or output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/step/batch_pass.h"
#include "train/step/gradient_hook.h"
#include "train/step/ordered_fault.h"
#include "train/step/out_of_memory.h"
#include "train/step/replica_loaders.h"
#include "train/step/step_buffers.h"
#include "train/step/step_clock.h"
#include "train/step/step_guard.h"
#include "train/step/taken_batches.h"
#include "train/step/weight_update.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: task and config outlive it.
class StepRunner {
 public:
  /// `config` has the final values of replicas and threads.
  StepRunner(Job job, Task& task, const TrainConfig& config);

  /// Creates the network with fresh, seeded weights.
  [[nodiscard]] std::shared_ptr<TaskNet> make_net();
  /// Wraps `net`, whose weights become those of rank 0. Collective: yes.
  void build(const std::shared_ptr<TaskNet>& net);

  /// Runs the forward and backward passes of `batches` batches per replica; gradients become means over all replicas.
  /// Collective: yes. Returns: for each replica of this rank, the mean of loss_row() over its batches.
  /// Throws: whatever the task throws; if the task rejects a batch (DataError), taken() keeps that batch.
  const std::vector<at::Tensor>& compute_gradients(std::int64_t batches);

  /// Returns this rank's batches.
  [[nodiscard]] ReplicaLoaders& data() { return data_; }
  [[nodiscard]] DistributedDataParallel<TaskNet>& model() { return *model_; }
  /// Returns the object that runs the forward and backward passes of a batch. It also holds the names of the loss parts
  /// and the watch.
  [[nodiscard]] BatchPass& pass() { return pass_; }
  [[nodiscard]] StepBuffers& buffers() { return buffers_; }
  [[nodiscard]] StepGuard& guard() { return guard_; }
  /// Returns the object that computes the next weights from the gradients.
  [[nodiscard]] WeightUpdate& weights() { return weights_; }
  /// Returns the clock that times the parts of this rank's steps.
  [[nodiscard]] StepClock& clock() { return clock_.clock(); }
  /// Returns the batches that the last calls to compute_gradients() took.
  [[nodiscard]] const TakenBatches& taken() const { return taken_; }
  /// Returns the number of images in the last compute_gradients(), over all replicas.
  [[nodiscard]] std::int64_t images() const;
  /// Returns the layers of the network that were fused.
  [[nodiscard]] const nn::Optimized& optimized() const { return optimized_; }
  /// Returns the tensors that this rank keeps, including those of its last batch.
  [[nodiscard]] std::vector<Holder> memory_holders() const;

 private:
  void run_replica(Replica& replica, std::int64_t batches);

  Job job_;
  Task& task_;
  const TrainConfig& config_;
  int replicas_;
  RunClock clock_;
  nn::Optimized optimized_;
  std::optional<DistributedDataParallel<TaskNet>> model_;
  ReplicaTeam team_;
  ReplicaLoaders data_;
  WeightUpdate weights_;
  TakenBatches taken_;
  OrderedFault fault_;
  std::optional<GradientHook> struck_;  ///< where the ordered fault of a gradient strikes
  BatchPass pass_;
  StepBuffers buffers_;
  StepGuard guard_;
  std::int64_t first_batch_ = 0;  ///< number of the step's first batch in the epoch
  std::int64_t images_ = 0;       ///< number of images of this rank's replicas
  std::vector<Holder> batch_;     ///< the tensors of the last batch
};

}  // namespace lockstep::train
