// SPDX-License-Identifier: Apache-2.0
// StepGuard: the guard of a run's steps, if there is one, with the parts of a step needed to recompute it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lockstep/comm/job.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/replica_team.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/state_dict.h"
#include "lockstep/train/train_config.h"
#include "train/step/batch_pass.h"
#include "train/step/guard.h"
#include "train/step/replica_loaders.h"
#include "train/step/weight_update.h"
#include "train/task/task_net.h"

namespace lockstep::train {

/// The objects needed to recompute a step. Lifetime: they outlive the guard.
struct GuardParts {
  const TrainConfig& config;
  BatchPass& pass;
  ReplicaLoaders& data;
  ReplicaTeam& team;
  WeightUpdate& weights;
};

/// Does nothing in a run without a guard. Owned by the training thread unless a member's comment says otherwise.
class StepGuard {
 public:
  StepGuard(Job job, const GuardParts& parts) : job_(std::move(job)), parts_(parts) {}

  /// Creates the guard for `model`. Collective: yes.
  void build(DistributedDataParallel<TaskNet>& model);
  /// `average` returns the state of the moving average, which the guard compares as well.
  void set_average(std::function<StateDict()> average) { average_ = std::move(average); }

  /// Begins a step. Returns true if it is guarded.
  bool begin(std::int64_t step);
  /// Sets the replica that has this rank's turn. On any thread.
  void enter(int replica);
  /// Returns true for the guarded step's replica. On the replica's thread.
  [[nodiscard]] bool watches(int replica) const { return guard_ && guard_->watches(replica); }
  /// Takes a batch's loss row and the results of the replica's collectives so far. On the replica's thread.
  void add(const at::Tensor& row, const std::string& reductions) { guard_->add(row, reductions); }
  /// Ends a guarded step, whose first batch of the epoch was `first_batch`, with `batches` batches per replica.
  /// Collective: yes. Blocks: yes. Throws: Miscomputed.
  void finish(std::int64_t first_batch, std::int64_t batches);

  /// Compares the state that all ranks must share. Collective: yes. Blocks: yes. Throws: Miscomputed.
  void compare_state(std::int64_t step);
  /// Returns the last step verified by the guard; none without a working guard.
  [[nodiscard]] std::optional<std::int64_t> proved() const { return guard_ ? guard_->proved() : std::nullopt; }

 private:
  /// Returns the state, other than the weights, that is the same on every rank.
  [[nodiscard]] NamedTensors equal_state();
  /// Recomputes a replica's part of the guarded step. Returns the digest of its loss rows and gradients.
  std::uint64_t compute_again(int replica, const std::string& reductions);
  std::uint64_t batch_again(Batch& batch, int replica);

  Job job_;
  GuardParts parts_;
  DistributedDataParallel<TaskNet>* model_ = nullptr;
  std::function<StateDict()> average_;
  std::int64_t first_batch_ = 0;
  std::int64_t batches_ = 1;
  std::optional<Guard> guard_;
};

/// Returns the optimizer's floating-point state; with ZeRO, only this rank's part.
[[nodiscard]] NamedTensors optimizer_tensors(WeightUpdate& weights);

}  // namespace lockstep::train
