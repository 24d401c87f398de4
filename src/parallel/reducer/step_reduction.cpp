// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/step_reduction.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/optim/clip.h"
#include "lockstep/tensor/sharing.h"

namespace lockstep::parallel {
namespace {

// A check, in the first step only, that the ranks of a job train on different samples.

bool all_equal(const std::vector<at::Tensor>& digests) {
  return std::all_of(digests.begin(), digests.end(), [&](const at::Tensor& each) {
    const auto* own = each.data_ptr<std::int64_t>();
    const auto* first = digests.front().data_ptr<std::int64_t>();
    return own[1] == 1 && own[0] == first[0];
  });
}

/// Warns on rank 0 if every rank's first batch has the same indices, with the likely cause. Batches that were not made
/// by a DataLoader are not checked. Collective: yes.
void warn_of_equal_batches(ProcessGroup& group) {
  const auto batch = tensor::take_first_batch();
  if (group.world_size() == 1) return;
  const at::Tensor own = at::zeros({2}, at::kLong);
  if (batch) {
    own.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(batch->digest);
    own.data_ptr<std::int64_t>()[1] = 1;
  }
  std::vector<at::Tensor> digests;
  group.all_gather(own, digests).wait();
  if (group.rank() != 0 || !batch || !all_equal(digests)) return;
  const char* cause = batch->shards == 1
                          ? "the DataLoader was created without the job: DataLoader{dataset, job, options}"
                          : "the sampler gives every shard the same samples, or each rank was given the same shard";
  log::warn("all {} ranks train on the same samples (first batch: {}, ...): {}", group.world_size(),
            fmt::join(batch->indices, ", "), cause);
}

}  // namespace

StepReduction::StepReduction(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options,
                             const ReplicaLayout& layout)
    : group_(group),
      options_(options),
      layout_(layout),
      gradients_(std::move(parameters), group, options, layout),
      used_(gradients_.parameters().size()) {}

void StepReduction::begin(int divisor) {
  arrival_order_.clear();
  gradients_.restart(divisor);
}

void StepReduction::contribute(std::size_t index, int local) {
  if (layout_.is_last(local)) arrival_order_.push_back(index);
  if (gradients_.has_buckets()) gradients_.contribute(index, local);
}

void StepReduction::contribute_unused(std::size_t index, int local) {
  if (gradients_.has_buckets()) gradients_.contribute_unused(index, local);
}

void StepReduction::end() {
  if (gradients_.has_buckets()) gradients_.deliver(used_anywhere());
  used_.assign(used_.size(), false);
  reduced_ = true;
  if (!settled_) settle();
}

void StepReduction::shadow(int divisor) {
  begin(divisor);
  used_.assign(used_.size(), false);
  for (std::size_t i = 0; i < used_.size(); ++i) {
    gradients_.parameters().grad(i) = at::Tensor();  // drops the last step's result, which all ranks have used
    gradients_.contribute_unused(i, 0);
  }
  end();
}

void StepReduction::shard(bool on) {
  if (on && layout_.hook) {
    throw UsageError("sharded gradients cannot be combined with a communication hook", "omit one of the two");
  }
  gradients_.shard(on);
  sharded_ = on;
  keeps_plan_ = keeps_plan_ || on;  // new buckets would change the ranks' parts
}

double StepReduction::norm() const {
  if (sharded_) {
    throw UsageError("cannot compute the norm of sharded gradients: each rank has only its part",
                     "use the optimizer's grad_norm()");
  }
  return reduced_ ? gradients_.norm() : grad_norm(gradients_.parameters().items);
}

/// Returns true for each parameter that a replica of the run has used; empty if this rank need not know.
std::vector<bool> StepReduction::used_anywhere() {
  if (!options_.find_unused_parameters && !options_.static_graph) return {};
  if (options_.static_graph && settled_) return used_in_static_;  // the same on every rank
  const at::Tensor used = at::zeros({static_cast<std::int64_t>(used_.size())}, at::kInt);
  std::copy(used_.begin(), used_.end(), used.data_ptr<std::int32_t>());
  Work work = group_.all_reduce(used, {.op = ReduceOp::kMax});
  // This rank does not need the result, but another rank may, so both call the collective above.
  if (std::find(used_.begin(), used_.end(), false) == used_.end()) return {};
  work.wait();
  std::vector<bool> anywhere(used_.size());
  for (std::size_t i = 0; i < anywhere.size(); ++i) anywhere[i] = used.data_ptr<std::int32_t>()[i] != 0;
  used_in_static_ = anywhere;
  return anywhere;
}

/// Every rank adopts rank 0's order of arrival.
void StepReduction::settle() {
  settled_ = true;
  warn_of_equal_batches(group_);
  if (!gradients_.has_buckets() || keeps_plan_) return;
  for (const Bucket& bucket : gradients_.buckets().all()) {  // parameters that did not arrive keep their current order
    for (const std::size_t i : bucket.members) {
      const auto end = arrival_order_.end();
      if (std::find(arrival_order_.begin(), end, i) == end) arrival_order_.push_back(i);
    }
  }
  const auto count = static_cast<std::int64_t>(used_.size());
  const at::Tensor agreed = at::empty({count}, at::kLong);
  std::copy(arrival_order_.begin(), arrival_order_.end(), agreed.data_ptr<std::int64_t>());
  group_.broadcast(agreed, 0).wait();
  const auto* first = agreed.data_ptr<std::int64_t>();
  gradients_.rebuild(std::vector<std::size_t>(first, first + count));
}

}  // namespace lockstep::parallel
