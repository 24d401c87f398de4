// SPDX-License-Identifier: Apache-2.0
// Moves each parameter's gradient from grad() into its bucket, and the result back. The Reducer decides when.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "parallel/reducer/buckets.h"

namespace lockstep::parallel {

class Gradients {
 public:
  Gradients(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options, const ReplicaLayout& layout);

  /// Returns false for one replica on one rank without a hook: gradients then stay in autograd's memory.
  [[nodiscard]] bool has_buckets() const { return layout_.world > 1 || layout_.has_rows() || layout_.hook; }
  [[nodiscard]] const TrainedParameters& parameters() const { return parameters_; }
  [[nodiscard]] const Buckets& buckets() const { return buckets_; }

  /// Starts a synced backward, in which no gradient has arrived yet. The sums are divided by `divisor`, or by the
  /// number of replicas if it is 0.
  void restart(int divisor);
  /// Keeps the gradient of a backward that is not reduced: later gradients accumulate in the bucket.
  void keep(std::size_t index);
  /// Puts the complete gradient of the block's `local`-th replica into its bucket.
  void contribute(std::size_t index, int local);
  /// Like contribute(), but for a parameter that this backward did not reach: its gradient is what earlier backwards
  /// accumulated, or zero.
  void contribute_unused(std::size_t index, int local);
  /// Waits for all reductions and leaves the results in grad(). `used` is empty, or true for each parameter that a
  /// replica of the run has reached; other parameters keep their grad().
  void deliver(const std::vector<bool>& used);
  /// See Buckets::shard().
  void shard(bool on);
  /// Returns the norm of the gradients that deliver() left in grad(), as grad_norm() would compute it.
  [[nodiscard]] double norm() const;
  /// Waits for reductions of a backward that ended with an error.
  void abandon() { buckets_.wait(); }
  /// Creates new buckets for `order`, an order of arrival, unless they would equal the current buckets.
  void rebuild(const std::vector<std::size_t>& order);

 private:
  /// A parameter that this backward has not reached.
  struct Unused {
    std::size_t index;
    at::Tensor grad;   ///< its grad() before
    at::Tensor value;  ///< a copy of that grad(), if its memory is the bucket's
  };

  void bring(std::size_t index, int local);
  void arrived(std::size_t index);
  void take_result(std::size_t index);

  TrainedParameters parameters_;
  ProcessGroup& group_;
  DdpOptions options_;
  ReplicaLayout layout_;
  Buckets buckets_;
  std::shared_ptr<NormSums> norm_sums_;  ///< set if reductions sum the norm
  bool counts_ = false;                  ///< the step under way, or the last one, sums the norm
  std::vector<bool> kept_;               ///< true for each parameter whose grad() is not the last step's result
  std::vector<Unused> unused_;           ///< the unused parameters of the backward under way
};

}  // namespace lockstep::parallel
