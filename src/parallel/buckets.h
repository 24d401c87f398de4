// SPDX-License-Identifier: Apache-2.0
// The memory in which gradients live, and the count of what a bucket still waits for. No autograd here.
#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/work.h"
#include "lockstep/tensor/named_tensors.h"

namespace lockstep::parallel {

/// One flat buffer and the parameters whose gradients lie in it.
struct Bucket {
  std::vector<std::size_t> members = {};  ///< indices of parameters
  at::Tensor buffer = {};
};

/// All buckets of a model. Views have the parameters' own strides.
class Buckets {
 public:
  Buckets() = default;
  /// Memory comes from group.allocate_bucket(), so that all_reduce works in place; for device parameters from the
  /// device.
  Buckets(const NamedTensors& parameters, std::vector<std::vector<std::size_t>> plan, ProcessGroup& group);

  [[nodiscard]] const std::vector<Bucket>& all() const { return buckets_; }
  [[nodiscard]] const at::Tensor& view(std::size_t parameter) const { return views_[parameter]; }
  [[nodiscard]] bool has_plan(const std::vector<std::vector<std::size_t>>& plan) const;

  /// Forgets what arrived: a new backward begins.
  void restart();
  /// `parameter`'s gradient is in its view; starts the all_reduce (mean) of each bucket that is full, in bucket order.
  void arrived(std::size_t parameter, ProcessGroup& group);
  /// True when some bucket is being reduced and some is not yet.
  [[nodiscard]] bool is_halfway() const { return !works_.empty() && works_.size() < buckets_.size(); }
  /// Waits until every bucket is reduced; all gradients must have arrived.
  void wait();

 private:
  std::vector<Bucket> buckets_;
  std::vector<at::Tensor> views_;       ///< by parameter
  std::vector<std::size_t> bucket_of_;  ///< by parameter
  std::vector<std::size_t> missing_;    ///< by bucket
  std::vector<Work> works_;             ///< of the first works_.size() buckets
};

}  // namespace lockstep::parallel
