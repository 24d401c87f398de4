// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/tree_sum.h"
#include "lockstep/parallel/communication_hook.h"

namespace lockstep {
namespace {

bool is_narrow(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

}  // namespace

ReplicaSum GradBucket::all_reduce(const std::vector<at::Tensor>& values) const {
  const at::ScalarType dtype = values.front().scalar_type();
  if (place_.replicas == group_->world_size()) {
    // If a value is the gradient itself, it is copied, since the hook may need the gradient again.
    const at::Tensor own = values.front().is_alias_of(gradients_.front()) ? values.front().clone() : values.front();
    const at::Tensor sum = own.contiguous();
    if (place_.exact || group_->world_size() == 1) return {group_->all_reduce(sum), sum, dtype};
    const at::Tensor row = sum.unsqueeze(0);
    return {group_->all_reduce(row, {.replicas = place_.replicas, .exact = false}), sum, dtype};
  }
  std::vector<at::Tensor> wide;
  for (const at::Tensor& value : values) wide.push_back((is_narrow(dtype) ? value.to(at::kFloat) : value).contiguous());
  at::Tensor rows;
  if (place_.exact) {
    rows = partial_sums(wide, place_.block, place_.replicas);
  } else {
    rows = wide.front().clone().unsqueeze(0);
    for (std::size_t i = 1; i < wide.size(); ++i) rows[0].add_(wide[i]);
  }
  Work work = group_->all_reduce(rows, {.replicas = place_.replicas, .exact = place_.exact});
  return {std::move(work), rows[0], dtype};
}

}  // namespace lockstep
