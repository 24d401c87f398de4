// SPDX-License-Identifier: Apache-2.0
// One optimizer step of this rank's replicas: their batches, forward, backward with reduction, update. Knows nothing of
// epochs' ends, evaluation, saving or what is shown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/data/loader.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/train/step_graph.h"
#include "lockstep/train/task.h"
#include "lockstep/train/train_config.h"
#include "train/out_of_memory.h"
#include "train/task_net.h"

namespace lockstep::train {

/// Owned by the training thread. Lifetime: task and config outlive it.
class StepRunner {
 public:
  /// `config`: with replicas and threads decided.
  StepRunner(Job job, Task& task, const TrainConfig& config);

  /// One loader for each replica of this rank.
  void load(const std::shared_ptr<Dataset>& dataset);
  [[nodiscard]] std::int64_t batches_per_epoch() const { return loaders_.front().steps_per_epoch(); }

  /// The network with fresh weights, seeded.
  [[nodiscard]] std::shared_ptr<TaskNet> make_net();
  /// Wraps `net`, whose weights are rank 0's from here on. Collective: yes.
  void build(const std::shared_ptr<TaskNet>& net);

  /// The next step's first batch is the `first_batch`-th of `epoch`. Loading begins at once.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch);
  /// Ends loading.
  void end_epoch() { passes_.clear(); }

  /// Forward and backward over `batches` batches of each replica; gradients are then the mean over all replicas.
  /// Collective: yes. Returns: the loss of each replica of this rank, its mean over the batches.
  const std::vector<at::Tensor>& compute_gradients(std::int64_t batches);
  /// Clips and updates the weights. Collective: where the optimizer is sharded or the loss scaled.
  /// Returns: false where the step was left out, on every rank: a gradient was not finite and the loss is scaled.
  bool update(double lr);

  /// Replica 0's buffers on every rank and replica, as they are at the next step. Collective: yes.
  void sync_buffers();

  /// Seconds that this rank's replicas have waited for batches.
  [[nodiscard]] double waited_s() const;
  /// Samples of this rank's replicas that were left out, each once.
  [[nodiscard]] std::int64_t bad_samples() const;

  /// Images of the last compute_gradients(), over all replicas.
  [[nodiscard]] std::int64_t images() const;
  [[nodiscard]] DistributedDataParallel<TaskNet>& model() { return *model_; }
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] GradScaler& scaler() { return scaler_; }
  /// With which the last update()'s loss was scaled; none where it is not.
  [[nodiscard]] std::optional<double> loss_scale() const { return loss_scale_; }
  /// Which layers of the network were fused.
  [[nodiscard]] const nn::Optimized& optimized() const { return optimized_; }
  /// The tensors that this rank keeps, and those of its last batch.
  [[nodiscard]] std::vector<Holder> memory_holders() const;
  [[nodiscard]] ReplicaSpan block() const { return team_.block(); }

 private:
  void run_replica(Replica& replica, std::int64_t batches);
  /// Forward, loss times `share`, backward; returns the loss.
  at::Tensor run_batch(const Batch& batch, double share);
  at::Tensor run_seeded(const Batch& batch, std::uint64_t seed, double share, bool last);
  at::Tensor run_recorded(const Batch& batch, std::uint64_t seed);
  void record_steps();
  [[nodiscard]] std::unique_ptr<Optimizer> make_optimizer();
  [[nodiscard]] bool norm_is_counted() const;

  Job job_;
  Task& task_;
  const TrainConfig& config_;
  int replicas_;
  nn::Optimized optimized_;
  std::optional<DistributedDataParallel<TaskNet>> model_;
  std::unique_ptr<Optimizer> optimizer_;
  GradScaler scaler_;
  std::optional<double> loss_scale_;
  ReplicaTeam team_;
  std::vector<DataLoader> loaders_;        ///< one for each replica of this rank
  std::vector<DataLoader::Epoch> passes_;  ///< theirs, of the epoch under way
  std::optional<StepGraph> graph_;         ///< where steps are recorded
  bool said_fallback_ = false;
  bool synced_ = false;  ///< no step has changed the buffers since sync_buffers()
  std::int64_t epoch_ = 0;
  std::vector<at::Tensor> losses_;  ///< of the step under way
  std::int64_t images_ = 0;         ///< of this rank's replicas
  std::vector<Holder> batch_;       ///< the tensors of the last one
};

}  // namespace lockstep::train
