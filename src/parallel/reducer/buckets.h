// SPDX-License-Identifier: Apache-2.0
// The gradients' memory, and the number of gradients that each bucket is still waiting for. Does not use autograd.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/comm/work.h"
#include "lockstep/parallel/communication_hook.h"
#include "lockstep/tensor/named_tensors.h"
#include "parallel/reducer/norm_sums.h"
#include "parallel/reducer/sparse_mean.h"

namespace lockstep::parallel {

/// The replicas whose gradients a rank contributes, and how they are combined.
struct ReplicaLayout {
  int replicas = 0;   ///< number of replicas in the run; 0 means one per rank
  ReplicaSpan block;  ///< replicas of this rank
  int world = 1;
  bool exact = true;
  CommunicationHook hook = nullptr;

  /// Returns true if buckets have rows, as they do if some rank has several replicas or the backend may add in any
  /// order. There is one row for each partial sum or, with a hook, for each replica.
  [[nodiscard]] bool has_rows() const noexcept { return replicas != 0; }
  /// Returns the replicas of the run.
  [[nodiscard]] int total() const noexcept { return has_rows() ? replicas : world; }
  /// Returns true for the last replica of this rank's block, which completes the rank's sums.
  [[nodiscard]] bool is_last(int local) const noexcept { return local + 1 == block.size(); }
};

/// The parameters that a model trains: those that require a gradient.
struct TrainedParameters {
  NamedTensors items;
  std::vector<bool> sparse;  ///< true for each item whose gradients are sparse

  [[nodiscard]] std::size_t size() const { return items.size(); }
  [[nodiscard]] const std::string& name(std::size_t index) const { return items[index].first; }
  [[nodiscard]] at::Tensor& grad(std::size_t index) const { return items[index].second.mutable_grad(); }
};

/// How the gradient of one local replica is added: it is combined with rows `first`, first + 1, ... into the subtree
/// that becomes row `first`.
struct FoldStep {
  std::size_t first = 0;
  std::vector<ReplicaSpan> spans = {};  ///< the replicas in each of those rows, then this replica
};

/// Returns one step for each replica of the block, in order. Pure function.
[[nodiscard]] std::vector<FoldStep> fold_steps(const ReplicaLayout& layout);

/// One flat buffer and the parameters whose gradients it holds; or one parameter with sparse gradients and no buffer.
struct Bucket {
  std::vector<std::size_t> members = {};  ///< indices of parameters
  at::Tensor buffer = {};                 ///< flat buffer; with rows [rows, elements], in float32 for 16-bit parameters
  at::Tensor published = {};              ///< the part that is reduced; its first row receives the result
  at::Tensor narrow = {};                 ///< the result in the parameters' own type, if the buffer's type differs
  std::optional<GradBucket> seen_by_hook = {};
  std::optional<SparseMean> sparse = {};
  std::shared_ptr<const std::vector<NormMember>> places = {};  ///< places of the members' gradients in the result
};

/// All buckets of a model. Views have the parameters' own strides.
///
/// A bucket is filling while a member's gradient is missing, then being reduced, then done. Reductions start in bucket
/// order on every rank, independent of the order of arrival, so that the ranks' reductions match. restart() makes all
/// buckets filling again. Not thread-safe: the Reducer calls it under its mutex.
class Buckets {
 public:
  Buckets() = default;
  /// Allocates the buffers with group.allocate_bucket(), so that all_reduce works in place; for device parameters on
  /// the device.
  Buckets(const TrainedParameters& parameters, std::vector<std::vector<std::size_t>> plan, const ReplicaLayout& layout,
          ProcessGroup& group);

  [[nodiscard]] const std::vector<Bucket>& all() const { return buckets_; }
  /// Returns the parameter's gradient after wait(); undefined if it is sparse.
  [[nodiscard]] const at::Tensor& view(std::size_t parameter) const { return views_[parameter]; }
  /// Returns the mean of a parameter with sparse gradients.
  [[nodiscard]] SparseMean& sparse(std::size_t parameter) { return *buckets_[bucket_of_[parameter]].sparse; }
  [[nodiscard]] bool has_plan(const std::vector<std::vector<std::size_t>>& plan) const;

  /// Adds the gradient of the block's `local`-th replica to its partial sum, in tree order; with a hook puts it into
  /// its row.
  void fold(std::size_t parameter, std::size_t local, const at::Tensor& gradient);

  /// Sets the object that sums the squares of the reductions' results; null disables this. Not supported with hooks or
  /// sparse gradients.
  void count_norm(std::shared_ptr<NormSums> sums) { norm_sums_ = std::move(sums); }
  /// Discards the gradients received so far, because a new backward begins. The sums are divided by `divisor`, or by
  /// the number of replicas if it is 0.
  void restart(int divisor = 0);
  /// Records that `parameter`'s gradient is complete on this rank; starts the all_reduce (mean), or the hook, of each
  /// bucket that is full, in bucket order.
  void arrived(std::size_t parameter, ProcessGroup& group);
  /// Returns how many buckets are being reduced or already reduced.
  [[nodiscard]] std::size_t started() const { return stages_.size(); }
  /// If `on`, each rank gets the mean only for its part of each bucket, which is shard_of() the bucket's elements.
  void shard(bool on) noexcept { sharded_ = on; }
  /// Returns true if the reduction of some buckets has started, and of others has not.
  [[nodiscard]] bool is_halfway() const { return !recorded_ && !stages_.empty() && stages_.size() < buckets_.size(); }
  /// Waits until every bucket is reduced; all gradients must have arrived. Reductions that were started in a failed
  /// recording are discarded.
  void wait();

 private:
  void fill(Bucket& bucket, const NamedTensors& parameters, ProcessGroup& group);
  [[nodiscard]] Work reduce(const Bucket& bucket, const ReduceOptions& options, ProcessGroup& group) const;
  [[nodiscard]] HookStage start(Bucket& bucket, ProcessGroup& group) const;

  ReplicaLayout layout_;
  std::shared_ptr<NormSums> norm_sums_;
  bool sharded_ = false;
  std::vector<FoldStep> folds_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> hooked_;            ///< the buckets that the hook gets: all except sparse ones
  std::vector<at::Tensor> views_;              ///< view of each parameter's gradient in the result
  std::vector<std::vector<at::Tensor>> rows_;  ///< for each parameter, its views in the rows of the buffer
  std::vector<std::size_t> bucket_of_;         ///< bucket of each parameter
  int divisor_ = 0;
  std::vector<std::size_t> missing_;  ///< number of missing gradients of each bucket
  bool recorded_ = false;             ///< the stages are part of a recording and are not running
  std::vector<HookStage> stages_;     ///< stages of the buckets that are being reduced, the first of all()
};

}  // namespace lockstep::parallel
