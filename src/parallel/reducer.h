// SPDX-License-Identifier: Apache-2.0
// Reducer: autograd hooks that know when a gradient is complete, and what to do with those that never come.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/forward_pass.h"
#include "parallel/gradients.h"

namespace lockstep::parallel {

/// States of a backward: idle -> (an output of a forward is reached, or a first gradient) running -> (the engine's
/// final callback) idle. Outputs are reached in the outermost backward, so that recomputed segments, which run a
/// backward of their own inside it, are part of it. A backward that ended with an error leaves it running, which the
/// next forward notices.
///
/// Thread-safe: hooks may come from the engine's device threads; the rest is the training thread's.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Throws: UsageError where there are fewer replicas than ranks.
  Reducer(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Hooks into autograd; once, after the Reducer is owned by a shared_ptr.
  void attach();

  /// Of the forwards to come of the replica that runs.
  void set_sync(bool sync) { turn().sync = sync; }
  [[nodiscard]] bool sync() const { return turns_[static_cast<std::size_t>(replica_)].sync; }
  [[nodiscard]] ProcessGroup& group() const { return group_; }
  [[nodiscard]] const NamedTensors& parameters() const { return gradients_.parameters(); }
  [[nodiscard]] const Buckets& buckets() const { return gradients_.buckets(); }
  [[nodiscard]] int rebuilds() const { return rebuilds_; }

  /// This rank's replicas, and the number among them of the one that runs.
  [[nodiscard]] int local_replicas() const { return layout_.block.size(); }
  [[nodiscard]] int replica() const { return replica_; }
  /// The gradients that `local` has accumulated take the place of those of the replica before.
  void enter_replica(int local);

  /// What a DistributedDataParallel announces inside a Join.
  enum JoinAction { kForward, kBuffers, kBackward };
  [[nodiscard]] const std::optional<JoinHandle>& join() const { return join_; }
  /// Throws: UsageError with several replicas on a rank.
  void set_join(std::optional<JoinHandle> handle);
  /// On a rank without data: takes part in the reductions of a backward, with zeros. grad() then is everybody's.
  void shadow_backward(const JoinStatus& status);

  /// From here on each rank gets its part of every bucket's mean only, and buckets stay as they are. For an optimizer
  /// that knows: what the rest of grad() holds is not defined.
  /// Throws: UsageError with a communication hook.
  void shard_gradients(bool on);

  /// See DistributedDataParallel::grad_norm().
  [[nodiscard]] double grad_norm();

  /// Throws: UsageError where a synced backward was left halfway, so that the ranks are out of step.
  void before_forward();
  /// A forward with gradients is over. `outputs`: its tensors; `complete`: there are no others in its result.
  /// Throws: UsageError where unused parameters are to be found and `complete` is false.
  void after_forward(const std::vector<at::Tensor>& outputs, bool complete);

 private:
  /// What one replica of this rank has done of its backward.
  struct Turn {
    bool sync = true;                                       ///< what the next forward is for
    bool armed = false;                                     ///< a forward has no backward yet
    bool last_sync = true;                                  ///< of the last forward
    std::vector<std::weak_ptr<ForwardPass>> forwards = {};  ///< whose backward may come
    bool running = false;
    bool reached = false;  ///< through an output of a forward
    bool whole = false;    ///< it is a backward(), not the gradient of some inputs
    bool synced = false;
    bool started = false;          ///< the synced part: buckets take gradients
    std::size_t arrivals = 0;      ///< calls of hooks
    std::vector<int> counts = {};  ///< the same by parameter
    std::vector<bool> contributed = {};
    std::vector<std::size_t> order = {};     ///< of arrivals, in the first step of a static graph
    std::vector<int> expected = {};          ///< counts of that step
    std::vector<at::Tensor> gradients = {};  ///< accumulated, while another replica runs
  };

  [[nodiscard]] bool is_last() const { return replica_ + 1 == local_replicas(); }
  [[nodiscard]] bool finds_unused() const { return options_.find_unused_parameters && !options_.static_graph; }
  /// In the first synced step of a static graph.
  [[nodiscard]] bool is_recording() { return options_.static_graph && turn().synced && turn().expected.empty(); }
  [[nodiscard]] Turn& turn() { return turns_[static_cast<std::size_t>(replica_)]; }

  void output_reached(ForwardPass& forward);
  /// `defined`: false where only a part of the graph that got nothing leads to it.
  void gradient_ready(std::size_t index, bool defined);
  void begin_backward();
  void begin_step(const JoinStatus& status);
  void start_sync();
  [[nodiscard]] bool is_complete(std::size_t index);
  void complete(std::size_t index);
  void contribute_unused(std::size_t index);
  void mark_unreachable();
  void end_backward();
  void finish_recording();
  void handle_missing();
  void end_turn();
  void end_step();
  [[nodiscard]] std::vector<bool> used_anywhere();
  void rebuild();
  void require_forward();
  [[noreturn]] void throw_two_gradients(std::size_t index);
  [[noreturn]] void throw_changed_graph(std::size_t index);
  [[noreturn]] void throw_unused(const std::vector<std::size_t>& missing);
  [[noreturn]] void fail(const std::string& message, const std::string& hint);

  ProcessGroup& group_;
  DdpOptions options_;
  ReplicaLayout layout_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  ///< libtorch holds them weakly
  std::vector<std::uintptr_t> hooks_;
  ParameterOf parameter_of_;
  int rebuilds_ = 0;
  bool settled_ = false;     ///< the layout is final: the first synced backward is over
  bool keeps_plan_ = false;  ///< the first plan of the buckets is the last
  bool sharded_ = false;
  bool opaque_ = false;  ///< some forward's result could not be looked into

  std::optional<JoinHandle> join_;

  std::mutex mutex_;  ///< guards what follows
  Gradients gradients_;
  int replica_ = 0;
  std::vector<Turn> turns_;  ///< by local replica
  bool reduced_ = false;     ///< grad() holds the result of a step, which is no replica's own
  std::vector<std::size_t> arrival_order_;
  std::vector<bool> used_;            ///< by parameter: some replica of this rank got a gradient since the last step
  std::vector<bool> used_in_static_;  ///< by parameter: used anywhere, once the static graph is known
};

}  // namespace lockstep::parallel
