// SPDX-License-Identifier: Apache-2.0
// ReplicaTeam: several replicas of a run on one rank, as threads that take turns. A replica's results do not depend on
// the other replicas in its process.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"

#pragma GCC visibility push(default)

namespace lockstep {

class ReplicaTeam;

/// One of a run's replicas, for use while that replica runs.
class Replica {
 public:
  Replica(ReplicaTeam& team, int local, int index) : team_(&team), local_(local), index_(index) {}

  /// Returns the replica's index in the run, 0 .. count() - 1.
  [[nodiscard]] int index() const noexcept { return index_; }
  /// Returns the number of replicas of the whole run.
  [[nodiscard]] int count() const noexcept;
  /// Returns the replica's index on this rank, from 0.
  [[nodiscard]] int local() const noexcept { return local_; }

  /// Combines `tensor` over all replicas of the run, in place, in tree order, so that the result has the same bits on
  /// any number of ranks. It is meant for counts and statistics inside a forward, and for the sums that their backward
  /// needs. Gradients do not flow through it. Autocast's cached copies of weights are dropped, on a rank with one
  /// replica too: layers after the call cast the weights again.
  ///
  /// Collective: yes, over the replicas; the turn passes to the next replica of this rank.
  /// Blocks: yes.
  /// Shapes: the same on every replica; CPU tensors.
  /// Throws: UsageError if another replica of this rank ended without calling it; anything ProcessGroup::all_reduce()
  /// throws.
  void all_reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);

 private:
  ReplicaTeam* team_;
  int local_;
  int index_;
};

/// Returns the replica that this thread runs, for layers and losses that need more than their own part of the batch.
/// Throws: UsageError outside ReplicaTeam::run().
/// Example: lockstep::this_replica().all_reduce(boxes);
[[nodiscard]] Replica& this_replica();
/// Like this_replica(), but returns null outside ReplicaTeam::run().
[[nodiscard]] Replica* find_replica() noexcept;

/// The options of a ReplicaTeam.
struct ReplicaTeamOptions {
  int replicas = 0;  ///< number of replicas of the run; 0: the world size
  int threads = 1;   ///< libtorch threads of each replica
  /// Called before the replica with local index `local` continues, on the thread that passes on the turn.
  std::function<void(int local)> on_switch = nullptr;
};

/// The replicas of this rank. Exactly one runs at a time, on its own thread; it passes on its turn at each collective
/// and when it ends. A replica has its own thread-local state (autocast, gradient mode) and its own CPU random
/// generator state. A rank with one replica has no extra thread and no overhead.
///
/// During run() a replica waits for its turn, runs, waits in a collective, or has ended. The replica with the turn may
/// use everything that the replicas share (model, optimizer, group) without a lock: passing the turn orders memory
/// accesses. Between calls to run() no replica has the turn.
///
/// Lifetime: the group outlives it.  Thread-safe: no.
class ReplicaTeam {
 public:
  /// Throws: UsageError if there are fewer replicas than ranks.
  ReplicaTeam(ProcessGroup& group, const ReplicaTeamOptions& options);
  ~ReplicaTeam();
  ReplicaTeam(const ReplicaTeam&) = delete;
  ReplicaTeam& operator=(const ReplicaTeam&) = delete;

  /// Returns the number of replicas of the run, over all ranks.
  [[nodiscard]] int replicas() const noexcept;
  /// Returns the replicas of this rank.
  [[nodiscard]] ReplicaSpan block() const noexcept;

  /// Runs `body` for each replica of this rank, in order; the first one runs on the calling thread. A replica begins
  /// with the caller's gradient mode, autocast and other thread-local state, but without autocast's cached copies of
  /// weights.
  ///
  /// Blocks: until all have ended.
  /// Throws: the exception of the first replica that failed; the other replicas end at their next collective.
  void run(const std::function<void(Replica& replica)>& body);

 private:
  friend class Replica;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep

#pragma GCC visibility pop
