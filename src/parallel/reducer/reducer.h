// SPDX-License-Identifier: Apache-2.0
// The core of DistributedDataParallel: it reduces gradients while backward is still computing others.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/tensor/named_tensors.h"
#include "parallel/reducer/backward.h"
#include "parallel/reducer/forward_pass.h"
#include "parallel/reducer/graph_node.h"
#include "parallel/reducer/running_backwards.h"
#include "parallel/reducer/step_reduction.h"

namespace lockstep::parallel {

/// Calls a function, in the engine's thread, each time a parameter's gradient has been accumulated. The destructor
/// removes the hooks.
class AutogradHooks {
 public:
  /// The function to call. `defined` is false if the parameter is reached only through a part of the graph without
  /// gradients.
  using Ready = std::function<void(std::size_t index, bool defined)>;

  AutogradHooks() = default;
  ~AutogradHooks();
  AutogradHooks(const AutogradHooks&) = delete;
  AutogradHooks& operator=(const AutogradHooks&) = delete;

  /// Call it once. `ready` must not own this object.
  void attach(const NamedTensors& parameters, const Ready& ready);

  [[nodiscard]] const ParameterOf& parameter_of() const { return parameter_of_; }
  /// Returns the node that accumulates the gradient of parameter `index`.
  [[nodiscard]] const torch::autograd::Node* accumulator(std::size_t index) const { return accumulators_[index].get(); }

 private:
  std::vector<NodePointer> accumulators_;  ///< kept alive here, since libtorch holds them weakly
  std::vector<std::uintptr_t> hooks_;
  ParameterOf parameter_of_;
};

/// Reduces gradients while backward runs. Autograd's hooks hold it weakly. It takes the lock and calls the Backward,
/// which counts gradients, and the StepReduction, which reduces them.
///
/// States of a replica's backward: idle -> running (an output of a forward or a first gradient was reached) -> idle
/// (the engine's final callback); see Backward. A hook, the final callback, before_forward() and after_forward() hold
/// `mutex_`, which guards `step_` and `backward_`; the final callback also holds it while it waits for the reductions.
/// When a synced backward() of the rank's last replica returns, all of its reductions are over and grad() holds the
/// mean, or this rank's part of it with shard_gradients().
///
/// Thread-safe: hooks may come from the engine's device threads. All other functions belong to the training thread;
/// set_sync(), sync(), step(), local_replica(), join() and set_join() take no lock, so call these between backwards.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Keeps `owner`, the group's, as long as it lives. Throws: UsageError if there are fewer replicas than ranks.
  Reducer(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options, GroupOwner owner = nullptr);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Registers the hooks in autograd. Call it once, after a shared_ptr owns the Reducer.
  void attach();

  /// Sets whether later forwards of the active replica are reduced.
  void set_sync(bool sync) { backward_.replica().sync = sync; }
  [[nodiscard]] bool sync() { return backward_.replica().sync; }
  [[nodiscard]] ProcessGroup& group() const { return group_; }
  [[nodiscard]] const StepReduction& step() const { return step_; }

  [[nodiscard]] std::size_t local_replicas() const { return static_cast<std::size_t>(layout_.block.size()); }
  /// Returns the index of the active replica among this rank's replicas.
  [[nodiscard]] int local_replica() const { return backward_.local(); }
  /// Makes `local` the active replica: its accumulated gradients replace those of the previous replica.
  void enter_replica(int local);

  [[nodiscard]] const std::optional<JoinHandle>& join() const { return join_; }
  /// Throws: UsageError if a rank has several replicas.
  void set_join(std::optional<JoinHandle> handle);
  /// Takes part in the reductions of a backward with zeros, on a rank without data. grad() then has the result of all
  /// ranks.
  void shadow_backward(const JoinStatus& status);

  /// Makes each rank get only its part of every bucket's mean, and keeps the current buckets. Only for an optimizer
  /// that expects this: the rest of grad() is undefined.
  /// Throws: UsageError with a communication hook.
  void shard_gradients(bool on);

  /// See DistributedDataParallel::grad_norm().
  [[nodiscard]] double grad_norm();

  /// Checks that a forward may run. Throws: UsageError if a synced backward was abandoned halfway, so that the ranks
  /// are out of step.
  void before_forward();
  /// Records the end of a forward with gradients. `outputs` are its tensors; `complete` means that its result has no
  /// others.
  /// Throws: UsageError with DdpOptions::find_unused_parameters if `complete` is false.
  void after_forward(const std::vector<at::Tensor>& outputs, bool complete);

 private:
  GroupOwner owner_;  ///< destroyed last
  ProcessGroup& group_;
  DdpOptions options_;
  ReplicaLayout layout_;
  std::optional<JoinHandle> join_;
  AutogradHooks hooks_;
  RunningBackwards& running_;

  std::mutex mutex_;  ///< guards the members below
  StepReduction step_;
  Backward backward_;
};

}  // namespace lockstep::parallel
