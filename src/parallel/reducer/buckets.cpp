// SPDX-License-Identifier: Apache-2.0
// The buckets' memory, the partial sums of several replicas, and the order of reductions.
#include "parallel/reducer/buckets.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/invariant.h"
#include "lockstep/comm/tree_sum.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/flat_layout.h"

namespace lockstep::parallel {
namespace {

bool is_narrow(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

/// Returns the maximum number of rows that the partial sums of `steps` need.
std::int64_t most_rows(const std::vector<FoldStep>& steps) {
  std::size_t most = 1;
  for (const FoldStep& step : steps) most = std::max(most, step.first + step.spans.size() - 1);
  return static_cast<std::int64_t>(std::max(most, steps.back().first + 1));
}

/// Returns `gradient` with the type and strides of `place`.
at::Tensor in_layout_of(const at::Tensor& place, const at::Tensor& gradient) {
  if (gradient.strides() == place.strides() && gradient.scalar_type() == place.scalar_type()) return gradient;
  return at::empty_strided(place.sizes(), place.strides(), place.options()).copy_(gradient);
}

}  // namespace

std::vector<FoldStep> fold_steps(const ReplicaLayout& layout) {
  std::vector<FoldStep> steps;
  std::vector<ReplicaSpan> stack;
  for (int replica = layout.block.begin; replica < layout.block.end; ++replica) {
    std::vector<ReplicaSpan> before = stack;
    if (layout.exact) {
      stack = push_replica(before, replica, layout.replicas);
    } else {
      stack = {{layout.block.begin, replica + 1}};
    }
    FoldStep step{.first = stack.size() - 1};
    step.spans.assign(before.begin() + static_cast<std::ptrdiff_t>(step.first), before.end());
    step.spans.push_back({replica, replica + 1});
    steps.push_back(std::move(step));
  }
  return steps;
}

namespace {

/// Creates the GradBucket for the hook. `index` counts the buckets that the hook gets.
void show_to_hook(Bucket& bucket, tensor::FlatLayout flat, int index, const ReplicaLayout& layout,
                  ProcessGroup& group) {
  std::vector<at::Tensor> gradients;
  for (int local = 0; local < layout.block.size(); ++local) {
    gradients.push_back(layout.has_rows() ? bucket.buffer[local] : bucket.buffer);
  }
  const GradBucket::Place place{
      .index = index, .replicas = layout.total(), .block = layout.block, .exact = layout.exact};
  bucket.seen_by_hook.emplace(place, std::move(flat), std::move(gradients), group);
}

void allocate(Bucket& bucket, const at::Tensor& any, std::int64_t numel, const ReplicaLayout& layout,
              ProcessGroup& group) {
  const std::vector<FoldStep> folds = layout.has_rows() ? fold_steps(layout) : std::vector<FoldStep>{};
  const bool wide = layout.has_rows() && !layout.hook && is_narrow(any.scalar_type());
  const at::ScalarType dtype = wide ? at::kFloat : any.scalar_type();
  const std::int64_t rows = layout.hook ? layout.block.size() : layout.has_rows() ? most_rows(folds) : 1;
  bucket.buffer = any.device().is_cpu() ? group.allocate_bucket(rows * numel, dtype)
                                        : at::zeros({rows * numel}, any.options().dtype(dtype).requires_grad(false));
  if (wide) bucket.narrow = at::zeros({numel}, any.options().requires_grad(false));
  if (layout.has_rows()) bucket.buffer = bucket.buffer.view({rows, numel});
  const auto published = layout.has_rows() ? static_cast<std::int64_t>(folds.back().first) + 1 : rows;
  bucket.published = layout.has_rows() ? bucket.buffer.narrow(0, 0, published) : bucket.buffer;
}

/// Returns the function that sums the squares of the bucket's result, its first row.
std::function<void()> counting(const Bucket& bucket, const std::shared_ptr<NormSums>& sums) {
  const at::Tensor result = bucket.published.dim() > 1 ? bucket.published[0] : bucket.published;
  return [sums, result, places = bucket.places] { sums->add(result, *places); };
}

}  // namespace

Buckets::Buckets(const TrainedParameters& parameters, std::vector<std::vector<std::size_t>> plan,
                 const ReplicaLayout& layout, ProcessGroup& group)
    : layout_(layout),
      folds_(layout.has_rows() ? fold_steps(layout) : std::vector<FoldStep>{}),
      views_(parameters.items.size()),
      rows_(parameters.items.size()),
      bucket_of_(parameters.items.size()) {
  for (auto& members : plan) {
    for (const std::size_t index : members) bucket_of_[index] = buckets_.size();
    Bucket bucket;
    bucket.members = std::move(members);
    const std::size_t first = bucket.members.front();
    if (parameters.sparse[first]) {
      bucket.sparse.emplace(parameters.items[first].second, layout.total(), layout.block);
    } else {
      fill(bucket, parameters.items, group);
      if (layout.hook) hooked_.push_back(buckets_.size());
    }
    buckets_.push_back(std::move(bucket));
  }
  if (!hooked_.empty()) buckets_[hooked_.back()].seen_by_hook->set_last();
  restart();
}

/// Allocates memory for the members' gradients, and creates views of it.
void Buckets::fill(Bucket& bucket, const NamedTensors& parameters, ProcessGroup& group) {
  NamedTensors items;
  for (const std::size_t index : bucket.members) items.push_back(parameters[index]);
  const at::Tensor& any = items.front().second;
  const tensor::FlatLayout flat = tensor::flat_layout(items, any.scalar_type());
  allocate(bucket, any, flat.numel, layout_, group);
  const at::Tensor& result = bucket.narrow.defined() ? bucket.narrow : bucket.buffer.view({-1});
  std::vector<NormMember> places;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t index = bucket.members[i];
    places.push_back({index, flat.slots[i].offset, flat.slots[i].numel});
    views_[index] = tensor::flat_view(result, flat.slots[i]);
    for (std::int64_t row = 0; layout_.has_rows() && row < bucket.buffer.size(0); ++row) {
      rows_[index].push_back(tensor::flat_view(bucket.buffer[row], flat.slots[i]));
    }
  }
  bucket.places = std::make_shared<const std::vector<NormMember>>(std::move(places));
  if (layout_.hook) show_to_hook(bucket, flat, static_cast<int>(hooked_.size()), layout_, group);
}

bool Buckets::has_plan(const std::vector<std::vector<std::size_t>>& plan) const {
  if (plan.size() != buckets_.size()) return false;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i] != buckets_[i].members) return false;
  }
  return true;
}

void Buckets::fold(std::size_t parameter, std::size_t local, const at::Tensor& gradient) {
  const std::vector<at::Tensor>& rows = rows_[parameter];
  if (layout_.hook) {
    rows[local].copy_(gradient);
    return;
  }
  const FoldStep& step = folds_[local];
  const at::Tensor& place = rows[step.first];
  // On one rank the last replica's fold completes the mean; otherwise all_reduce divides.
  const bool divides = layout_.world == 1 && local + 1 == folds_.size();
  if (step.spans.size() == 1 && !divides) {
    place.copy_(gradient);
    return;
  }
  if (!layout_.exact) {
    place.add_(gradient);
    if (divides) place.div_(layout_.replicas);
    return;
  }
  std::vector<PartialSum> parts;
  parts.reserve(step.spans.size());
  for (std::size_t i = 0; i + 1 < step.spans.size(); ++i) parts.push_back({rows[step.first + i], step.spans[i]});
  parts.push_back({in_layout_of(place, gradient), step.spans.back()});
  if (divides) return tree_sum(parts, place, {.op = ReduceOp::kMean, .divisor = layout_.replicas});
  tree_sum(parts, place);
}

void Buckets::restart(int divisor) {
  divisor_ = divisor;
  if (norm_sums_) norm_sums_->restart();
  stages_.clear();
  missing_.clear();
  for (Bucket& bucket : buckets_) {
    missing_.push_back(bucket.members.size());
    if (bucket.seen_by_hook) bucket.seen_by_hook->set_divisor(divisor);
    if (bucket.sparse) bucket.sparse->set_divisor(divisor == 0 ? layout_.total() : divisor);
  }
}

void Buckets::arrived(std::size_t parameter, ProcessGroup& group) {
  const std::size_t bucket_index = bucket_of_[parameter];
  LOCKSTEP_INVARIANT(missing_[bucket_index] > 0 && stages_.size() <= bucket_index,
                     "a gradient of parameter {} reaches bucket {} of {}, which is missing {} while {} are reduced",
                     parameter, bucket_index, buckets_.size(), missing_[bucket_index], stages_.size());
  --missing_[bucket_index];
  while (stages_.size() < buckets_.size() && missing_[stages_.size()] == 0) {
    Bucket& bucket = buckets_[stages_.size()];
    recorded_ = bucket.buffer.defined() && bucket.buffer.is_cuda() && tensor::is_recording();
    stages_.push_back(start(bucket, group));
  }
}

Work Buckets::reduce(const Bucket& bucket, const ReduceOptions& options, ProcessGroup& group) const {
  if (!sharded_) return group.all_reduce(bucket.published, options);
  const at::Tensor first = layout_.has_rows() ? bucket.published[0] : bucket.published;
  const ElementRange own = shard_of(first.numel(), layout_.world, group.rank());
  return group.reduce_scatter(bucket.published, first.narrow(0, own.begin, own.size()), options);
}

HookStage Buckets::start(Bucket& bucket, ProcessGroup& group) const {
  if (bucket.sparse) return bucket.sparse->start(group);
  if (layout_.hook) {
    const at::NoGradGuard no_grad;
    return layout_.hook(*bucket.seen_by_hook);
  }
  std::function<void()> count = norm_sums_ && divisor_ == 0 ? counting(bucket, norm_sums_) : nullptr;
  if (layout_.world == 1) {  // the last fold has completed the mean
    if (count) count();
    return {};
  }
  const ReduceOptions options{.op = divisor_ == 0 ? ReduceOp::kMean : ReduceOp::kSum,
                              .replicas = layout_.replicas,
                              .exact = layout_.exact,
                              .then = std::move(count),
                              .bucket = static_cast<int>(&bucket - buckets_.data()),
                              .buckets = static_cast<int>(buckets_.size())};
  HookStage stage{.works = {reduce(bucket, options, group)}};
  if (divisor_ == 0) return stage;
  stage.then = [sum = bucket.published, divisor = divisor_] {
    sum.div_(divisor);
    return HookStage{};
  };
  return stage;
}

void Buckets::wait() {
  const at::NoGradGuard no_grad;
  if (recorded_ && !tensor::is_recording()) stages_.clear();
  // Runs stage by stage over all buckets: every bucket's next stage starts before waiting for the first bucket's.
  for (bool more = true; more;) {
    more = false;
    for (HookStage& stage : stages_) {
      for (Work& work : stage.works) work.wait();
      stage.works.clear();
      if (const auto then = std::exchange(stage.then, nullptr)) {
        stage = then();
        more = true;
      }
    }
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    if (bucket.narrow.defined()) bucket.narrow.copy_(bucket.buffer[0]);
  }
  stages_.clear();
}

}  // namespace lockstep::parallel
