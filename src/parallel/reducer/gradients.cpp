// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/optim/clip.h"
#include "lockstep/simulate/bucket_plan.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFirstBucketBytes = std::int64_t{1} << 20;
constexpr std::int64_t kBucketBytes = std::int64_t{25} << 20;

simulate::PlanLimits limits_of(const DdpOptions& options) {
  const std::int64_t first = options.bucket_bytes.value_or(kFirstBucketBytes);
  return {.first_bytes = options.first_bucket_bytes.value_or(first),
          .bytes = options.bucket_bytes.value_or(kBucketBytes)};
}

void require_dense(const std::string& name, const at::Tensor& grad) {
  if (!grad.defined() || !grad.is_sparse()) return;
  throw UsageError(fmt::format("the gradient of '{}' is sparse, which was not declared at construction", name),
                   fmt::format("set DdpOptions::sparse_parameters = {{\"{}\"}}; the parameters of torch::nn::Embedding "
                               "with sparse(true) are found automatically",
                               name));
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

/// Returns true if the parameter's grad() is already the bucket's memory.
bool is_in_bucket(const at::Tensor& value, const at::Tensor& view) {
  return value.defined() && view.defined() && !value.is_sparse() && same_memory(value, view);
}

/// Returns true if reductions can sum the squares for grad_norm(): not with sparse gradients, hooks, GPUs or 16-bit
/// types.
bool can_count(const TrainedParameters& parameters, const ReplicaLayout& layout) {
  const auto is_counted = [](const auto& item) {
    const at::ScalarType dtype = item.second.scalar_type();
    return item.second.is_cpu() && (dtype == at::kFloat || dtype == at::kDouble);
  };
  return !layout.hook && std::all_of(parameters.items.begin(), parameters.items.end(), is_counted) &&
         std::find(parameters.sparse.begin(), parameters.sparse.end(), true) == parameters.sparse.end();
}

std::vector<std::vector<std::size_t>> plan_for(const TrainedParameters& parameters,
                                               const std::vector<std::size_t>& order, const DdpOptions& options) {
  std::vector<simulate::PlanItem> items;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, value] = parameters.items[i];
    std::string kind = fmt::format("{} {}", c10::toString(value.scalar_type()), value.device().str());
    if (parameters.sparse[i]) kind = "sparse " + name;  // a unique kind gives this parameter its own bucket
    items.push_back({.bytes = static_cast<std::int64_t>(value.nbytes()), .kind = std::move(kind)});
  }
  return simulate::plan_buckets(items, order, limits_of(options));
}

}  // namespace

Gradients::Gradients(TrainedParameters parameters, ProcessGroup& group, const DdpOptions& options,
                     const ReplicaLayout& layout)
    : parameters_(std::move(parameters)), group_(group), options_(options), layout_(layout) {
  if (!has_buckets()) return;
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  buckets_ = Buckets(parameters_, plan_for(parameters_, order, options_), layout_, group_);
  if (!options.grad_norm || !can_count(parameters_, layout_)) return;
  norm_sums_ = std::make_shared<NormSums>(parameters_.items, group.world_size(), group.rank());
  buckets_.count_norm(norm_sums_);
}

void Gradients::shard(bool on) {
  buckets_.shard(on);
  if (!on) return;
  norm_sums_.reset();
  buckets_.count_norm(nullptr);
}

void Gradients::restart(int divisor) {
  unused_.clear();
  counts_ = norm_sums_ != nullptr && divisor == 0;
  buckets_.restart(divisor);
}

void Gradients::keep(std::size_t index) {
  // With rows, each replica accumulates in autograd's own gradient tensor.
  const bool in_bucket = has_buckets() && !layout_.has_rows() && !parameters_.sparse[index];
  if (in_bucket && options_.gradient_as_bucket_view) bring(index, 0);
}

void Gradients::contribute(std::size_t index, int local) {
  bring(index, local);
  if (layout_.is_last(local)) arrived(index);
}

/// Records an arrival. If a hook fails, it aborts the group, since other ranks are waiting for the hook's reduction.
void Gradients::arrived(std::size_t index) {
  try {
    buckets_.arrived(index, group_);
  } catch (const std::exception& error) {
    if (layout_.world > 1) group_.abort(error.what());
    throw;
  }
}

void Gradients::contribute_unused(std::size_t index, int local) {
  const at::NoGradGuard no_grad;
  Unused unused{.index = index, .grad = parameters_.grad(index), .value = {}};
  if (is_in_bucket(parameters_.grad(index), buckets_.view(index))) unused.value = unused.grad.clone();
  bring(index, local);
  if (!layout_.is_last(local)) return;
  parameters_.grad(index) = unused.grad;
  unused_.push_back(std::move(unused));
  arrived(index);
}

/// Copies grad() into the bucket; afterwards grad() is the bucket's view, if the options ask for it.
void Gradients::bring(std::size_t index, int local) {
  const at::NoGradGuard no_grad;
  if (parameters_.sparse[index]) {
    buckets_.sparse(index).put(local, parameters_.grad(index));
    if (!layout_.is_last(local)) parameters_.grad(index) = at::Tensor();
    return;
  }
  const at::Tensor& view = buckets_.view(index);
  at::Tensor& value = parameters_.grad(index);
  require_dense(parameters_.name(index), value);
  if (layout_.has_rows()) {
    buckets_.fold(index, static_cast<std::size_t>(local), value.defined() ? value : at::zeros_like(view));
    if (!layout_.is_last(local)) value = at::Tensor();
  } else if (!value.defined()) {
    view.zero_();
  } else if (!is_in_bucket(parameters_.grad(index), buckets_.view(index))) {
    view.copy_(value);
  }
  if (layout_.is_last(local) && options_.gradient_as_bucket_view) value = view;
}

void Gradients::deliver(const std::vector<bool>& used) {
  const at::NoGradGuard no_grad;
  buckets_.wait();
  if (counts_ && layout_.world > 1) norm_sums_->combine(group_);
  kept_.assign(parameters_.size(), false);
  for (const Unused& one : unused_) {
    kept_[one.index] = !used.empty() && !used[one.index];
    if (kept_[one.index] && one.value.defined()) one.grad.copy_(one.value);
  }
  unused_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!kept_[i]) take_result(i);
  }
}

double Gradients::norm() const {
  // If a parameter kept its grad(), that differs from the reduction's result. In this rare case, all gradients are
  // read.
  if (!counts_ || std::find(kept_.begin(), kept_.end(), true) != kept_.end()) return grad_norm(parameters_.items);
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return parameters_.name(a) < parameters_.name(b); });
  std::vector<std::vector<double>> sums;
  for (const std::size_t index : order) {
    if (parameters_.grad(index).defined()) sums.push_back(norm_sums_->of(index));
  }
  return optim::norm_of_blocks(sums);
}

void Gradients::take_result(std::size_t index) {
  at::Tensor& value = parameters_.grad(index);
  if (parameters_.sparse[index]) {
    value = buckets_.sparse(index).result();
    return;
  }
  const at::Tensor& view = buckets_.view(index);
  if (options_.gradient_as_bucket_view) {
    if (!value.is_same(view)) value = view;
    return;
  }
  if (!value.defined()) value = at::empty_strided(view.sizes(), view.strides(), view.options());
  value.copy_(view);
}

void Gradients::rebuild(const std::vector<std::size_t>& order) {
  auto better = plan_for(parameters_, order, options_);
  if (buckets_.has_plan(better)) return;
  Buckets rebuilt(parameters_, std::move(better), layout_, group_);
  rebuilt.count_norm(norm_sums_);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_in_bucket(parameters_.grad(i), buckets_.view(i))) continue;
    rebuilt.view(i).copy_(parameters_.grad(i));
    parameters_.grad(i) = rebuilt.view(i);
  }
  buckets_ = std::move(rebuilt);
}

}  // namespace lockstep::parallel
