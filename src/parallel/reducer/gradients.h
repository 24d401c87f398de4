// SPDX-License-Identifier: Apache-2.0
// The place of each parameter's gradient: moves it from grad() into its bucket, and the result back. The Reducer
// decides when.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

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

  /// Returns false for one replica on one rank without a hook: gradients stay in autograd's memory.
  [[nodiscard]] bool has_buckets() const { return layout_.world > 1 || layout_.has_rows() || layout_.hook; }
  [[nodiscard]] const TrainedParameters& parameters() const { return parameters_; }
  [[nodiscard]] const Buckets& buckets() const { return buckets_; }

  /// Starts a synced backward, in which nothing has arrived yet. `divisor` is that of the sums; 0: the number of
  /// replicas.
  void restart(int divisor);
  /// Keeps the gradient of a backward that is not reduced: later ones accumulate in the bucket.
  void keep(std::size_t index);
  /// Puts the complete gradient of the block's `local`-th replica into its bucket.
  void contribute(std::size_t index, int local);
  /// Does the same for a parameter that this backward did not reach: it counts as the gradient accumulated before, else
  /// as zero.
  void contribute_unused(std::size_t index, int local);
  /// Waits for all reductions and leaves the results in grad(). `used`, if not empty, holds for each parameter if any
  /// replica of the run has reached it; other parameters keep their grad().
  void deliver(const std::vector<bool>& used);
  /// See Buckets::shard().
  void shard(bool on);
  /// Returns the norm of all grad()s as deliver() left them, as grad_norm() would compute it.
  [[nodiscard]] double norm() const;
  /// Waits for reductions of a backward that ended with an error.
  void abandon() { buckets_.wait(); }
  /// Makes new buckets for `order`, an order of arrival, unless they are the present ones.
  void rebuild(const std::vector<std::size_t>& order);

 private:
  /// A parameter that this backward has not reached.
  struct Unused {
    std::size_t index;
    at::Tensor grad;   ///< the grad() that it had
    at::Tensor value;  ///< a copy of it, if its memory is the bucket's
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
  bool counts_ = false;                  ///< for the step under way, or the last one
  std::vector<bool> kept_;               ///< by parameter: grad() is not the last step's result
  std::vector<Unused> unused_;           ///< the unused parameters of the backward under way
};

}  // namespace lockstep::parallel
