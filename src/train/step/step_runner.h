// SPDX-License-Identifier: Apache-2.0
// One optimizer step of this rank's replicas: their batches, forward, backward with reduction, update. Knows nothing of
// epochs' ends, evaluation, saving or what is shown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
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
#include "train/step/out_of_memory.h"
#include "train/task/task_net.h"

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

  /// The model takes the values of `state`: the same on every rank. Throws: DataError as load_model_state_dict().
  void load_weights(const StateDict& state);

  /// The next step's first batch is the `first_batch`-th of `epoch`. Loading begins at once.
  void start_epoch(std::int64_t epoch, std::int64_t first_batch);
  /// Ends loading.
  void end_epoch() { passes_.clear(); }

  /// Forward and backward over `batches` batches of each replica; gradients are then the mean over all replicas.
  /// Collective: yes. Returns: loss_row() of each replica of this rank, its mean over the batches.
  /// Throws: what the task throws; of a batch that it cannot take (DataError), after that batch was kept.
  const std::vector<at::Tensor>& compute_gradients(std::int64_t batches);
  /// Clips and updates the weights. Collective: where the optimizer is sharded or the loss scaled.
  /// Returns: false where the step was left out, on every rank: a gradient was not finite and the loss is scaled.
  bool update(double lr);

  /// Replica 0's buffers on every rank and replica, as they are at the next step. Collective: yes.
  void sync_buffers();

  /// Seconds that this rank's replicas have waited for batches.
  [[nodiscard]] double waited_s() const;
  /// The part of the last `seconds` that they waited since the last call: of the rank that waited most.
  /// Collective: yes.
  [[nodiscard]] double wait_share(double seconds);
  /// Indices of the samples of this rank's replicas that were left out, each replica's once.
  [[nodiscard]] std::vector<std::int64_t> bad_samples() const;

  /// Names of the further columns of a loss's row; empty where there is only one part, and before the first step.
  [[nodiscard]] const std::vector<std::string>& loss_names() const { return loss_names_; }

  /// Writes the batches of this rank whose loss was not finite `ago` calls of compute_gradients() before the last one
  /// (0 or 1), and one that the task could not take, into `folder`. `step`: that call's. Returns: the files. Throws:
  /// IoError; what the data set throws.
  std::vector<std::filesystem::path> keep_bad_batches(std::int64_t step, std::int64_t ago,
                                                      const std::filesystem::path& folder);

  /// Images of the last compute_gradients(), over all replicas.
  [[nodiscard]] std::int64_t images() const;
  [[nodiscard]] DistributedDataParallel<TaskNet>& model() { return *model_; }
  [[nodiscard]] const DistributedDataParallel<TaskNet>& model() const { return *model_; }
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
  /// One compute_gradients(): its batches can be made once more.
  struct Taken {
    std::int64_t epoch = 0;
    std::int64_t first_batch = 0;
    std::vector<at::Tensor> losses;                  ///< rows, by replica of this rank: sums over the batches
    std::vector<std::vector<at::Tensor>> rows = {};  ///< of each batch, by replica of this rank
  };
  /// A batch that the task could not take.
  struct Failed {
    int replica = 0;
    Batch batch;
    std::string fault;
  };

  void run_replica(Replica& replica, std::int64_t batches);
  /// Forward, loss times `share`, backward; returns the loss's row.
  at::Tensor run_batch(const Batch& batch, double share);
  at::Tensor run_or_keep(Replica& replica, Batch& batch, double share, bool last);
  [[nodiscard]] std::filesystem::path remake_and_keep(const Taken& taken, std::size_t local, std::int64_t step,
                                                      const std::filesystem::path& folder);
  at::Tensor run_seeded(const Batch& batch, std::uint64_t seed, double share, bool last);
  [[nodiscard]] std::unique_ptr<tensor::DeviceGraph> graph_of_steps() const;
  void record_steps(std::unique_ptr<tensor::DeviceGraph> graph);
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
  bool synced_ = false;                    ///< no step has changed the buffers since sync_buffers()
  std::int64_t epoch_ = 0;
  Taken now_;
  Taken before_;
  std::optional<Failed> failed_;
  std::vector<std::string> loss_names_;
  double reported_wait_s_ = 0;  ///< by wait_share()
  std::int64_t images_ = 0;     ///< of this rank's replicas
  std::vector<Holder> batch_;   ///< the tensors of the last one
};

}  // namespace lockstep::train
