// SPDX-License-Identifier: Apache-2.0
// Reducer: autograd hooks that bring each gradient into its bucket and average full buckets while backward runs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/buckets.h"

namespace torch::autograd {
struct Node;
}

namespace lockstep::parallel {

/// States of a backward: idle -> (first hook) running -> (engine's final callback) idle. A backward that ended with an
/// error leaves it running, which the next forward notices.
///
/// Thread-safe: hooks may come from the engine's device threads; the rest is the training thread's.
class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// `parameters`: those that require a gradient.
  /// Throws: UsageError where there are fewer replicas than ranks.
  Reducer(NamedTensors parameters, ProcessGroup& group, const DdpOptions& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Hooks into autograd; once, after the Reducer is owned by a shared_ptr.
  void attach();

  /// Of the replica that runs.
  void set_sync(bool sync) { turn().sync = sync; }
  [[nodiscard]] bool sync() const { return turns_[static_cast<std::size_t>(replica_)].sync; }
  [[nodiscard]] ProcessGroup& group() const { return group_; }
  [[nodiscard]] const NamedTensors& parameters() const { return parameters_; }
  [[nodiscard]] const Buckets& buckets() const { return buckets_; }
  [[nodiscard]] int rebuilds() const { return rebuilds_; }

  /// This rank's replicas, and the number among them of the one that runs.
  [[nodiscard]] int local_replicas() const { return layout_.block.size(); }
  [[nodiscard]] int replica() const { return replica_; }
  /// The gradients that `local` has accumulated take the place of those of the replica before.
  void enter_replica(int local);

  /// Throws: UsageError where a synced backward was left halfway, so that the ranks are out of step.
  void before_forward();

 private:
  /// What one replica of this rank has done of its backward.
  struct Turn {
    bool sync = true;  ///< what the next backward is
    bool running = false;
    bool synced = false;  ///< sync when this backward began
    std::vector<bool> arrived;
    std::vector<at::Tensor> gradients;  ///< accumulated, while another replica runs
  };

  [[nodiscard]] bool has_buckets() const { return layout_.world > 1 || layout_.has_rows(); }
  [[nodiscard]] bool is_last() const { return replica_ + 1 == local_replicas(); }
  [[nodiscard]] Turn& turn() { return turns_[static_cast<std::size_t>(replica_)]; }
  void gradient_ready(std::size_t index);
  void begin_backward();
  void end_backward();
  void take_gradient(std::size_t index);
  void fold_gradient(std::size_t index);
  void handle_unused();
  void rebuild();
  [[nodiscard]] std::vector<std::vector<std::size_t>> plan(const std::vector<std::size_t>& order) const;

  NamedTensors parameters_;
  ProcessGroup& group_;
  DdpOptions options_;
  ReplicaLayout layout_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  ///< libtorch holds them weakly
  std::vector<std::uintptr_t> hooks_;
  Buckets buckets_;  ///< empty for one replica on one rank: gradients stay where autograd puts them
  int rebuilds_ = 0;
  bool settled_ = false;  ///< the layout is final: the first synced backward is over

  std::mutex mutex_;  ///< guards what follows, and buckets_ during backward
  int replica_ = 0;
  std::vector<Turn> turns_;  ///< by local replica
  bool reduced_ = false;     ///< grad() holds the result of a step, which is no replica's own
  std::vector<std::size_t> arrival_order_;
};

}  // namespace lockstep::parallel
