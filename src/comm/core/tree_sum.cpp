// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/tree_sum.h"

#include <ATen/ops/empty.h>

#include "comm/core/collective.h"
#include "comm/core/tensor_tree.h"
#include "comm/core/tree_reduce.h"
#include "lockstep/base/error.h"

namespace lockstep {

void tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options) {
  if (!comm::is_reducible(out.scalar_type())) {
    throw UsageError("tree_sum cannot add " + comm::dtype_name(out.scalar_type()));
  }
  std::vector<comm::TreeLeaf> leaves;
  leaves.reserve(parts.size());
  for (const PartialSum& part : parts) {
    if (part.value.sizes() != out.sizes() || part.value.strides() != out.strides() ||
        part.value.scalar_type() != out.scalar_type()) {
      throw InternalError("tree_sum was given values of different shape, layout or type");
    }
    leaves.push_back({static_cast<const std::byte*>(part.value.data_ptr()), part.span});
  }
  if (!out.is_cpu()) return comm::tensor_tree_sum(parts, out, options);
  comm::tree_reduce({out.scalar_type(), options.op, options.divisor}, leaves, {static_cast<std::byte*>(out.data_ptr())},
                    out.numel());
}

at::Tensor partial_sums(const std::vector<at::Tensor>& values, ReplicaSpan block, int replicas, ReduceOp op) {
  const std::vector<ReplicaSpan> spans = whole_subtrees(block, replicas);
  std::vector<std::int64_t> sizes = values.front().sizes().vec();
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(spans.size()));
  const at::ScalarType dtype = comm::accumulator_of(values.front().scalar_type());
  at::Tensor rows = at::empty(sizes, values.front().options().dtype(dtype));
  const ReduceOp inner = op == ReduceOp::kMean ? ReduceOp::kSum : op;
  for (std::size_t row = 0; row < spans.size(); ++row) {
    std::vector<PartialSum> parts;
    for (int replica = spans[row].begin; replica < spans[row].end; ++replica) {
      const at::Tensor& value = values[static_cast<std::size_t>(replica - block.begin)];
      parts.push_back({value.detach().to(dtype), {replica, replica + 1}});
    }
    tree_sum(parts, rows[static_cast<std::int64_t>(row)], {.op = inner});
  }
  return rows;
}

}  // namespace lockstep
