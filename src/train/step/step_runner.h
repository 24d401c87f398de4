// SPDX-License-Identifier: Apache-2.0
// One step of this rank's replicas: forward and backward of their batches, with the reduction. Knows nothing of epochs'
// ends, evaluation, saving or output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/step_graph.h"
#include "lockstep/train/step_watch.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/step/guard.h"
#include "train/step/ordered_fault.h"
#include "train/step/out_of_memory.h"
#include "train/step/replica_loaders.h"
#include "train/step/step_clock.h"
#include "train/step/taken_batches.h"
#include "train/step/weight_update.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// It belongs to the training thread. Lifetime: task and config outlive it.
class StepRunner {
 public:
  /// In `config` replicas and threads are decided.
  StepRunner(Job job, Task& task, const TrainConfig& config);

  /// Returns this rank's batches.
  [[nodiscard]] ReplicaLoaders& data() { return data_; }

  /// Makes the network with fresh weights, seeded.
  [[nodiscard]] std::shared_ptr<TaskNet> make_net();
  /// Wraps `net`, whose weights become those of rank 0. Collective: yes.
  void build(const std::shared_ptr<TaskNet>& net);

  /// Loads the values of `state` into the model, the same on every rank. Throws: DataError as load_model_state_dict().
  void load_weights(const StateDict& state);

  /// Runs forward and backward over `batches` batches of each replica; gradients are then the mean over all replicas.
  /// Collective: yes. Returns: loss_row() of each replica of this rank, its mean over the batches.
  /// Throws: what the task throws; if the task refuses a batch (DataError), that batch is kept first.
  const std::vector<at::Tensor>& compute_gradients(std::int64_t batches);
  /// Copies replica 0's buffers to every rank and replica, for the next step. Collective: yes.
  void sync_buffers();
  /// Restores the buffers' elements that the last compute_gradients() has made NaN or infinite: the loss is scaled, its
  /// step was left out, and running statistics of an overflow would stay spoilt. Collective: yes.
  void restore_buffers();

  /// Calls `watch` from the next batch on; nullptr: no watch. Lifetime: until another call.
  void set_watch(StepWatch* watch) { watch_ = watch; }

  /// Returns the names of the other columns of a loss row; empty if there is only one part, and before the first step.
  [[nodiscard]] const std::vector<std::string>& loss_names() const { return loss_names_; }

  /// Returns the batches that the last calls of compute_gradients() took.
  [[nodiscard]] const TakenBatches& taken() const { return taken_; }

  /// Returns the images of the last compute_gradients(), over all replicas.
  [[nodiscard]] std::int64_t images() const;
  [[nodiscard]] DistributedDataParallel<TaskNet>& model() { return *model_; }
  [[nodiscard]] const DistributedDataParallel<TaskNet>& model() const { return *model_; }
  /// Returns the object that computes the next weights from the gradients.
  [[nodiscard]] WeightUpdate& weights() { return weights_; }
  /// Returns the times of this rank's parts.
  [[nodiscard]] StepClock& clock() { return clock_; }
  /// Returns the number of this rank's replicas.
  [[nodiscard]] std::int64_t local_replicas() const { return team_.block().size(); }
  /// Returns the layers of the network that were fused.
  [[nodiscard]] const nn::Optimized& optimized() const { return optimized_; }
  /// Returns the tensors that this rank keeps, and those of its last batch.
  [[nodiscard]] std::vector<Holder> memory_holders() const;

  /// `average` returns the state of the moving average: the guard compares it, too.
  void guard_average(std::function<StateDict()> average) { average_ = std::move(average); }
  /// Makes the guard, if there is one, compare the state that all ranks must share. Collective: yes. Throws:
  /// Miscomputed.
  void compare_state(std::int64_t step);
  /// Returns the last step that the guard has proved; none: there is no guard that can serve.
  [[nodiscard]] std::optional<std::int64_t> proved() const { return guard_ ? guard_->proved() : std::nullopt; }

 private:
  [[nodiscard]] NamedTensors floating_buffers();
  [[nodiscard]] NamedTensors optimizer_tensors();
  /// Returns the state, without the weights, that is the same on every rank.
  [[nodiscard]] NamedTensors equal_state();
  void run_replica(Replica& replica, std::int64_t batches);
  /// Computes the gradients of a batch; returns its loss row.
  at::Tensor compute(Replica& replica, Batch& batch);
  void note_fallback();
  std::vector<LossTerm> loss_terms(const Outputs& outputs, const Batch& batch);
  /// Runs forward, loss times the batch's share, and backward; returns the loss row.
  at::Tensor run_batch(const Batch& batch);
  at::Tensor run_batch(const Batch& batch, double share);
  /// The loss that backward begins with, and the batch's loss row.
  struct BatchLoss {
    at::Tensor scaled;
    at::Tensor row;
  };
  BatchLoss loss_of(Outputs outputs, const Batch& batch, double share);
  /// Computes a replica's part of the guarded step again. Returns the digest of its loss rows and gradients.
  std::uint64_t compute_again(int replica, const std::string& reductions);
  std::uint64_t batch_again(Batch& batch, int replica);
  [[nodiscard]] std::uint64_t seed_of_batch(int replica, std::int64_t number) const;

  Job job_;
  Task& task_;
  const TrainConfig& config_;
  int replicas_;
  StepClock clock_;
  nn::Optimized optimized_;
  std::optional<DistributedDataParallel<TaskNet>> model_;
  ReplicaTeam team_;
  ReplicaLoaders data_;
  WeightUpdate weights_;
  StepWatch* watch_ = nullptr;
  TakenBatches taken_;
  std::optional<StepGraph> graph_;  ///< set if steps are recorded; it ends before the communicators of job_ do
  std::string noted_;               ///< why they are not, once a note has said it
  NamedTensors kept_buffers_;       ///< copies from before the step, if the loss is scaled
  OrderedFault fault_;
  std::function<StateDict()> average_;
  std::optional<Guard> guard_;
  std::int64_t first_batch_ = 0;  ///< number of the step's first batch in the epoch
  bool synced_ = false;           ///< no step has changed the buffers since sync_buffers()
  std::vector<std::string> loss_names_;
  std::int64_t batches_ = 1;   ///< of each replica in this step
  bool adds_up_ = false;       ///< the batch's gradients are reduced with those of a later one
  std::int64_t images_ = 0;    ///< images of this rank's replicas
  std::vector<Holder> batch_;  ///< the tensors of the last batch
};

}  // namespace lockstep::train
