// SPDX-License-Identifier: Apache-2.0
#include "comm/core/tensor_tree.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

bool is_narrow(c10::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

at::Tensor combine(const at::Tensor& a, const at::Tensor& b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return a.add(b);
    case ReduceOp::kProduct:
      return a.mul(b);
    case ReduceOp::kMin:
      return at::minimum(a, b);
    case ReduceOp::kMax:
      return at::maximum(a, b);
    default:
      throw UsageError("bitwise operations over several replicas need tensors in host memory", "tensor.cpu()");
  }
}

/// Combines parts recursively; 16-bit floating-point types in float32.
class Tree {
 public:
  Tree(const std::vector<PartialSum>& parts, ReduceOp op) : parts_(parts), op_(op) {}

  at::Tensor sum(ReplicaSpan span) {
    const PartialSum& part = parts_.at(next_);
    if (part.span == span) {
      ++next_;
      return is_narrow(part.value.scalar_type()) ? part.value.to(at::kFloat) : part.value;
    }
    const int middle = tree_split(span.begin, span.end);
    const at::Tensor left = sum({span.begin, middle});
    return combine(left, sum({middle, span.end}), op_);
  }

 private:
  const std::vector<PartialSum>& parts_;
  const ReduceOp op_;
  std::size_t next_ = 0;
};

}  // namespace

void tensor_tree_sum(const std::vector<PartialSum>& parts, const at::Tensor& out, const TreeOptions& options) {
  const at::NoGradGuard no_grad;
  at::Tensor sum = Tree(parts, options.op).sum({parts.front().span.begin, parts.back().span.end});
  if (options.op == ReduceOp::kMean) sum = sum.div(divisor_tensor(sum, options.divisor));
  out.copy_(sum);
}

at::Tensor divisor_tensor(const at::Tensor& values, int divisor) {
  // A 16-bit type could round the divisor; a divisor on the host is exact.
  const bool on_device = !values.is_cpu() && !is_narrow(values.scalar_type());
  return at::full({}, divisor, on_device ? values.options().requires_grad(false) : at::TensorOptions(at::kDouble));
}

}  // namespace lockstep::comm
