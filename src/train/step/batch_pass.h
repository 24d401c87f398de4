// SPDX-License-Identifier: Apache-2.0
// BatchPass: forward, loss and backward of one batch, from a recording if the steps have one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/step_graph.h"
#include "lockstep/train/step_watch.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/step/ordered_fault.h"
#include "train/step/replica_loaders.h"
#include "train/step/weight_update.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// The loss that the backward pass starts from, and the batch's loss row.
struct BatchLoss {
  at::Tensor scaled;
  at::Tensor row;
};

/// The objects that a pass uses. Lifetime: they outlive it.
struct PassParts {
  Task& task;
  const TrainConfig& config;
  ReplicaLoaders& data;
  WeightUpdate& weights;
  OrderedFault& fault;
};

/// It belongs to the replica whose turn it is.
class BatchPass {
 public:
  BatchPass(Job job, const PassParts& parts) : job_(std::move(job)), parts_(parts) {}

  /// Uses `model` from now on; records its steps if `graph` is not null. Lifetime: the model outlives the pass.
  void build(DistributedDataParallel<TaskNet>& model, std::unique_ptr<tensor::DeviceGraph> graph);
  /// Calls `watch` from the next batch on; nullptr means no watch. Lifetime: until the next call.
  void set_watch(StepWatch* watch) { watch_ = watch; }

  /// Begins a step of `batches` batches per replica.
  void begin(std::int64_t batches) { batches_ = batches; }
  /// Runs the forward pass of a prepared batch, scales its loss by its share of the step, and runs the backward pass.
  /// `is_last`: this is the last batch of the replica's step. Returns the loss row. Throws: anything the task throws.
  at::Tensor run(const Replica& replica, Batch& batch, bool is_last);
  /// Recomputes the loss and row of the prepared batch, without the reducer.
  BatchLoss loss_again(int replica, const Batch& batch);

  /// Returns the names of the other columns of a loss row; empty if there is only one part, and before the first step.
  [[nodiscard]] const std::vector<std::string>& loss_names() const { return loss_names_; }

 private:
  void note_unrecorded();
  at::Tensor compute(const Batch& batch);
  at::Tensor backward(const Batch& batch);
  BatchLoss loss_of(Outputs outputs, const Batch& batch);
  std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch);
  [[nodiscard]] std::uint64_t seed_of(int replica, const Batch& batch) const;

  Job job_;
  PassParts parts_;
  DistributedDataParallel<TaskNet>* model_ = nullptr;
  StepWatch* watch_ = nullptr;
  std::optional<StepGraph> graph_;  ///< set if steps are recorded; destroyed before the communicators of job_
  std::string noted_;               ///< the last note on steps that are not recorded
  std::vector<std::string> loss_names_;
  std::int64_t batches_ = 1;  ///< batches of each replica in this step
  bool adds_up_ = false;      ///< the batch's gradients are reduced together with those of a later batch
};

}  // namespace lockstep::train
