// SPDX-License-Identifier: Apache-2.0
// Bucket memory and the order of reductions.
#include "parallel/buckets.h"

#include <ATen/ops/zeros.h>

#include "lockstep/tensor/flat_layout.h"

namespace lockstep::parallel {

Buckets::Buckets(const NamedTensors& parameters, std::vector<std::vector<std::size_t>> plan, ProcessGroup& group)
    : views_(parameters.size()), bucket_of_(parameters.size()) {
  for (auto& members : plan) {
    NamedTensors items;
    for (const std::size_t index : members) {
      items.push_back(parameters[index]);
      bucket_of_[index] = buckets_.size();
    }
    const at::Tensor& any = items.front().second;
    const tensor::FlatLayout layout = tensor::flat_layout(items, any.scalar_type());
    Bucket bucket;
    bucket.buffer = any.device().is_cpu() ? group.allocate_bucket(layout.numel, any.scalar_type())
                                          : at::zeros({layout.numel}, any.options().requires_grad(false));
    for (std::size_t i = 0; i < members.size(); ++i) {
      views_[members[i]] = tensor::flat_view(bucket.buffer, layout.slots[i]);
    }
    bucket.members = std::move(members);
    buckets_.push_back(std::move(bucket));
  }
  restart();
}

bool Buckets::has_plan(const std::vector<std::vector<std::size_t>>& plan) const {
  if (plan.size() != buckets_.size()) return false;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i] != buckets_[i].members) return false;
  }
  return true;
}

void Buckets::restart() {
  works_.clear();
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.members.size());
}

void Buckets::arrived(std::size_t parameter, ProcessGroup& group) {
  --missing_[bucket_of_[parameter]];
  while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
    works_.push_back(group.all_reduce(buckets_[works_.size()].buffer, {.op = ReduceOp::kMean}));
  }
}

void Buckets::wait() {
  for (Work& work : works_) work.wait();
  works_.clear();
}

}  // namespace lockstep::parallel
