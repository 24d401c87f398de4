// SPDX-License-Identifier: Apache-2.0
// The states of a backward on one rank, from the first node that it reaches to the last reduction.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/reducer/buckets.h"
#include "parallel/reducer/replica_backward.h"
#include "parallel/reducer/step_reduction.h"

namespace lockstep::parallel {

// Reports of backward passes that do not fit the options. Each report aborts the group, since the other ranks would
// wait for this one.

/// The place where a backward failed.
struct FaultyBackward {
  ProcessGroup& group;
  const TrainedParameters& parameters;
  ReplicaBackward& replica;
};

/// Reports a gradient that came through no forward of this wrapper: through the inner module, a parameter itself or
/// another wrapper. Throws: UsageError.
[[noreturn]] void throw_bypassed(const FaultyBackward& fault);
/// Reports that a parameter got a second gradient, or got a gradient although no output of a forward depends on it.
/// Throws: UsageError.
[[noreturn]] void throw_two_gradients(const FaultyBackward& fault, std::size_t index);
/// Reports that one backward passed through two wrappers of a parameter. Throws: UsageError.
[[noreturn]] void throw_two_wrappers(const FaultyBackward& fault, std::size_t index);
/// Reports that a step of a static graph differs from the first one. Throws: UsageError.
[[noreturn]] void throw_changed_graph(const FaultyBackward& fault, std::size_t index);
/// Reports that parameters got no gradient. Throws: UsageError.
[[noreturn]] void throw_unused(const FaultyBackward& fault, const std::vector<std::size_t>& missing);

/// The actions that a DistributedDataParallel announces inside a Join.
enum JoinAction { kForward, kBuffers, kBackward };

/// Returns the divisor of the step that `status` begins; 0 means the number of replicas.
[[nodiscard]] int divisor_of(const std::optional<JoinHandle>& join, const JoinStatus& status);

/// A call to a parameter's hook.
struct Arrival {
  bool defined = true;  ///< false if only a part of the graph without gradients leads to the parameter
  bool shared = false;  ///< another wrapper of the parameter is running its backward
};

/// The objects that a Backward uses. They belong to its owner and outlive it.
struct BackwardParts {
  ProcessGroup& group;
  const DdpOptions& options;
  const ReplicaLayout& layout;
  StepReduction& step;
  const std::optional<JoinHandle>& join;
};

/// The backward of this rank's replicas. States of a replica's backward: idle -> (an output of a forward or a first
/// gradient is reached) running -> (end()) idle. Outputs are reached in the outermost backward; recomputed segments,
/// which run their own backward inside it, are part of it. A backward that ended with an error leaves the state
/// running, which the next forward notices. Not thread-safe: the Reducer calls it under its mutex.
class Backward {
 public:
  /// `queue_end` makes the engine call end() when the outermost backward is over.
  Backward(const BackwardParts& parts, std::function<void()> queue_end);

  /// Returns the active replica's index among this rank's replicas.
  [[nodiscard]] int local() const { return local_; }
  [[nodiscard]] ReplicaBackward& replica() { return replicas_[static_cast<std::size_t>(local_)]; }
  /// Makes `local` active: its accumulated gradients replace those of the previous replica.
  void enter(int local);

  /// Checks that the replica may run a forward. Throws: UsageError if a synced backward was abandoned halfway, so that
  /// the ranks are out of step.
  void before_forward();
  /// Records the end of a forward with gradients. `complete` means that its result holds no unknown tensors.
  [[nodiscard]] std::shared_ptr<ForwardPass> after_forward(bool complete);

  void output_reached(ForwardPass& forward);
  /// Records a gradient, unless it belongs to another wrapper's backward.
  void gradient_ready(std::size_t index, const Arrival& arrival);
  void end();

 private:
  void begin();
  void start_sync();
  [[nodiscard]] bool is_complete(std::size_t index);
  void complete(std::size_t index);
  void contribute_unused(const std::vector<std::size_t>& indices);
  void finish_recording();
  void handle_missing();

  BackwardParts parts_;
  std::function<void()> queue_end_;
  bool opaque_ = false;  ///< some forward's result could not be searched for tensors
  int local_ = 0;
  std::vector<ReplicaBackward> replicas_;  ///< one for each local replica
};

}  // namespace lockstep::parallel
