// SPDX-License-Identifier: Apache-2.0
#include "parallel/reducer/sparse_mean.h"

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_unique.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

SparseRows merge(const SparseRows& left, const SparseRows& right) {
  if (left.indices.numel() == 0) return right;
  if (right.indices.numel() == 0) return left;
  const at::Tensor indices = std::get<0>(at::_unique(at::cat({left.indices, right.indices}), /*sorted=*/true));
  std::vector<std::int64_t> sizes = left.values.sizes().vec();
  sizes[0] = indices.numel();
  const at::Tensor values = at::zeros(sizes, left.values.options());
  values.index_copy_(0, at::searchsorted(indices, left.indices), left.values);
  values.index_add_(0, at::searchsorted(indices, right.indices), right.values);
  return {indices, values};
}

}  // namespace

SparseRows sparse_tree_sum(const std::vector<SparseRows>& replicas, ReplicaSpan span) {
  if (span.size() == 1) return replicas[static_cast<std::size_t>(span.begin)];
  const int middle = tree_split(span.begin, span.end);
  return merge(sparse_tree_sum(replicas, {span.begin, middle}), sparse_tree_sum(replicas, {middle, span.end}));
}

SparseMean::SparseMean(const at::Tensor& parameter, int replicas, ReplicaSpan block)
    : parameter_(parameter),
      replicas_(replicas),
      block_(block),
      divisor_(replicas),
      rows_(static_cast<std::size_t>(block.size())) {}

void SparseMean::put(int local, const at::Tensor& gradient) {
  const auto options = parameter_.options().requires_grad(false);
  std::vector<std::int64_t> sizes = parameter_.sizes().vec();
  sizes[0] = 0;
  SparseRows& rows = rows_[static_cast<std::size_t>(local)];
  // An empty sparse gradient counts as none: zero_grad() of libtorch gives it other sparse dimensions.
  if (!gradient.defined() || (gradient.is_sparse() && gradient._nnz() == 0)) {
    rows = {at::zeros({0}, options.dtype(at::kLong)), at::zeros(sizes, options)};
  } else if (!gradient.is_sparse()) {
    rows = {at::arange(gradient.size(0), options.dtype(at::kLong)), gradient.contiguous()};
  } else if (gradient.sparse_dim() == 1) {
    const at::Tensor sorted = gradient.coalesce();
    rows = {sorted.indices().select(0, 0).contiguous(), sorted.values().contiguous()};
  } else {
    throw UsageError(fmt::format("a sparse gradient has {} sparse dimensions", gradient.sparse_dim()),
                     "DistributedDataParallel reduces sparse gradients of embeddings, which have one");
  }
}

HookStage SparseMean::start(ProcessGroup& group) {
  return {.works = {}, .then = [this, &group] {
            reduce(group);
            return HookStage{};
          }};
}

void SparseMean::reduce(ProcessGroup& group) {
  std::vector<std::int64_t> counts;
  std::vector<at::Tensor> indices;
  std::vector<at::Tensor> values;
  for (const SparseRows& one : rows_) {
    counts.push_back(one.indices.numel());
    indices.push_back(one.indices);
    values.push_back(one.values);
  }
  // The indices are preceded by the number of rows of each of this rank's replicas.
  indices.insert(indices.begin(), at::tensor(counts).to(parameter_.device()));
  const std::vector<at::Tensor> all_indices = group.all_gather_uneven(at::cat(indices));
  const std::vector<at::Tensor> all_values = group.all_gather_uneven(at::cat(values));
  std::vector<SparseRows> replicas;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    const at::Tensor& from = all_indices[static_cast<std::size_t>(rank)];
    const at::Tensor wider = all_values[static_cast<std::size_t>(rank)].to(wide(parameter_.scalar_type()));
    const int locals = replicas_of_rank(rank, group.world_size(), replicas_).size();
    for (std::int64_t local = 0, at = 0; local < locals; ++local) {
      const auto count = from[local].item<std::int64_t>();
      replicas.push_back({from.narrow(0, locals + at, count), wider.narrow(0, at, count)});
      at += count;
    }
  }
  SparseRows sum = sparse_tree_sum(replicas, {0, replicas_});
  const at::Tensor mean = sum.values.div(divisor_).to(parameter_.scalar_type());
  result_ = at::_sparse_coo_tensor_unsafe(sum.indices.unsqueeze(0), mean, parameter_.sizes());
  result_._coalesced_(true);
}

}  // namespace lockstep::parallel
