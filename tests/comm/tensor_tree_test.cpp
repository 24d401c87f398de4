// SPDX-License-Identifier: Apache-2.0
// libtorch's operations in tree order against our kernel, on the CPU, where both can run.
#include "comm/core/tensor_tree.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace tensor_tree_test {

std::vector<PartialSum> one_part_per_replica(int replicas, c10::ScalarType dtype) {
  std::vector<PartialSum> parts;
  for (int replica = 0; replica < replicas; ++replica) {
    parts.push_back({at::randn({1003}).mul(3).to(dtype), {replica, replica + 1}});
  }
  return parts;
}

class TensorTree : public ::testing::TestWithParam<c10::ScalarType> {};

TEST_P(TensorTree, HasTheBitsOfTheKernelForEveryOperationAndNumberOfReplicas) {
  for (const int replicas : {1, 2, 3, 4, 5, 7, 8}) {
    const auto parts = one_part_per_replica(replicas, GetParam());
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      const at::Tensor expected = at::empty_like(parts.front().value);
      const at::Tensor found = at::empty_like(parts.front().value);
      tree_sum(parts, expected, {.op = op, .divisor = replicas});
      tensor_tree_sum(parts, found, {.op = op, .divisor = replicas});
      EXPECT_TRUE(found.equal(expected)) << replicas << " replicas, operation " << static_cast<int>(op);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TensorTree, ::testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16),
                         [](const auto& one) { return std::string(c10::toString(one.param)); });

TEST(TensorTree, TakesSubtreesAsParts) {
  const at::Tensor a = at::randn({100});
  const at::Tensor b = at::randn({100});
  const std::vector<PartialSum> parts = {{a, {4, 6}}, {b, {6, 7}}};
  const at::Tensor out = at::empty_like(a);
  tensor_tree_sum(parts, out, {});
  EXPECT_TRUE(out.equal(a.add(b)));
}

TEST(TensorTree, TheResultMayLieInAPart) {
  const auto parts = one_part_per_replica(3, at::kFloat);
  const at::Tensor expected = at::empty_like(parts.front().value);
  tree_sum(parts, expected);
  tensor_tree_sum(parts, parts.front().value, {});
  EXPECT_TRUE(parts.front().value.equal(expected));
}

TEST(TensorTree, RefusesBitwiseOperations) {
  const auto parts = one_part_per_replica(2, at::kFloat);
  EXPECT_THROW(tensor_tree_sum(parts, parts.front().value, {.op = ReduceOp::kBitAnd}), UsageError);
}

}  // namespace tensor_tree_test
}  // namespace lockstep::comm
