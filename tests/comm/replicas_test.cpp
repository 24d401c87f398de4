// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/replicas.h"

#include <gtest/gtest.h>

#include "lockstep/comm/tree_sum.h"
#include "support/tree_model.h"

namespace lockstep {
namespace replicas_test {

using Spans = std::vector<ReplicaSpan>;

TEST(Replicas, TheTreeSplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(tree_split(0, 2), 1);
  EXPECT_EQ(tree_split(0, 3), 2);
  EXPECT_EQ(tree_split(0, 4), 2);
  EXPECT_EQ(tree_split(0, 5), 4);
  EXPECT_EQ(tree_split(0, 8), 4);
  EXPECT_EQ(tree_split(4, 7), 6);
}

TEST(Replicas, LiveOnTheRankThatTheDesignGivesThem) {
  for (int replicas = 1; replicas <= 17; ++replicas) {
    for (int world = 1; world <= replicas; ++world) {
      for (int replica = 0; replica < replicas; ++replica) {
        const int rank = replica * world / replicas;
        const ReplicaSpan block = replicas_of_rank(rank, world, replicas);
        EXPECT_TRUE(block.begin <= replica && replica < block.end)
            << "replica " << replica << " of " << replicas << " on " << world;
      }
    }
  }
}

TEST(Replicas, ABlockFallsIntoTheLargestWholeSubtrees) {
  EXPECT_EQ(whole_subtrees({0, 4}, 4), (Spans{{0, 4}}));
  EXPECT_EQ(whole_subtrees({0, 2}, 4), (Spans{{0, 2}}));
  EXPECT_EQ(whole_subtrees({0, 3}, 4), (Spans{{0, 2}, {2, 3}}));
  EXPECT_EQ(whole_subtrees({1, 4}, 4), (Spans{{1, 2}, {2, 4}}));
  EXPECT_EQ(whole_subtrees({4, 7}, 7), (Spans{{4, 7}}));
  EXPECT_EQ(whole_subtrees({3, 7}, 7), (Spans{{3, 4}, {4, 7}}));
}

TEST(Replicas, PartialSumsOfAGrowingBlockStayFew) {
  Spans stack;
  std::size_t most = 0;
  for (int replica = 0; replica < 64; ++replica) {
    stack = push_replica(stack, replica, 64);
    most = std::max(most, stack.size());
  }
  EXPECT_EQ(stack, (Spans{{0, 64}}));
  EXPECT_EQ(most, 6U);
}

/// What the ranks of a world publish for `inputs`, one per replica: summed as they finish, one after another.
std::vector<PartialSum> publish(const std::vector<at::Tensor>& inputs, int world) {
  const auto replicas = static_cast<int>(inputs.size());
  std::vector<PartialSum> all;
  for (int rank = 0; rank < world; ++rank) {
    const ReplicaSpan block = replicas_of_rank(rank, world, replicas);
    std::vector<PartialSum> sums;
    for (int replica = block.begin; replica < block.end; ++replica) {
      Spans before;
      for (const PartialSum& sum : sums) before.push_back(sum.span);
      const Spans after = push_replica(before, replica, replicas);
      std::vector<PartialSum> merged(sums.begin() + static_cast<std::ptrdiff_t>(after.size()) - 1, sums.end());
      merged.push_back({inputs[static_cast<std::size_t>(replica)], {replica, replica + 1}});
      const at::Tensor out = at::empty_like(inputs.front());
      tree_sum(merged, out);
      sums.resize(after.size() - 1);
      sums.push_back({out, after.back()});
    }
    all.insert(all.end(), sums.begin(), sums.end());
  }
  return all;
}

TEST(Replicas, SumToTheSameBitsOnEveryWorld) {
  for (int replicas = 1; replicas <= 13; ++replicas) {
    std::vector<at::Tensor> inputs;
    for (int r = 0; r < replicas; ++r) inputs.push_back(comm::random_values(at::kFloat, 3001, r));
    const at::Tensor expected = comm::model(inputs, ReduceOp::kMean);
    for (int world = 1; world <= replicas; ++world) {
      const at::Tensor out = at::empty_like(inputs.front());
      tree_sum(publish(inputs, world), out, {.op = ReduceOp::kMean, .divisor = replicas});
      EXPECT_TRUE(comm::same_bits(out, expected)) << replicas << " replicas on " << world;
    }
  }
}

TEST(Replicas, PartialSumsAtOnceHaveTheBitsOfThoseOneByOne) {
  std::vector<at::Tensor> inputs;
  for (int r = 0; r < 11; ++r) inputs.push_back(comm::random_values(at::kFloat, 100, r));
  std::vector<at::Tensor> rows;
  for (int rank = 0; rank < 3; ++rank) {
    const ReplicaSpan block = replicas_of_rank(rank, 3, 11);
    const std::vector<at::Tensor> mine(inputs.begin() + block.begin, inputs.begin() + block.end);
    rows.push_back(partial_sums(mine, block, 11));
  }
  const std::vector<PartialSum> published = publish(inputs, 3);
  const at::Tensor all = at::cat(rows);
  ASSERT_EQ(all.size(0), static_cast<std::int64_t>(published.size()));
  for (std::size_t i = 0; i < published.size(); ++i) {
    EXPECT_TRUE(comm::same_bits(all[static_cast<std::int64_t>(i)], published[i].value));
  }
}

}  // namespace replicas_test
}  // namespace lockstep
