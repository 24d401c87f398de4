// SPDX-License-Identifier: Apache-2.0
// Sums in tree order, and the messages between ranks.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "comm/core/moves.h"
#include "comm/core/tensor_tree.h"
#include "comm/core/tree_reduce.h"
#include "comm/network/exchange_reduce.h"
#include "comm/network/gather.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/replicas.h"
#include "lockstep/comm/tree_sum.h"
#include "support/tree_model.h"

namespace lockstep::comm {
namespace tree_reduce_test {

TEST(TreeReduce, HasTheBitsOfTheModelForEveryDtypeOpAndWorld) {
  for (const auto dtype : kDtypes) {
    for (const ReduceOp op : ops_for(dtype)) {
      for (const int world : {1, 2, 3, 4, 5, 7, 8, 13}) {
        const std::int64_t count = 4099;  // two blocks and an odd remainder
        std::vector<at::Tensor> inputs;
        std::vector<TreeLeaf> leaves;
        for (int rank = 0; rank < world; ++rank) {
          inputs.push_back(random_values(dtype, count, rank));
          leaves.push_back({static_cast<const std::byte*>(inputs.back().data_ptr()), {rank, rank + 1}});
        }
        const at::Tensor expected = model(inputs, op);
        // The second destination is one of the sources, as in a bucket.
        at::Tensor out = at::empty({count}, dtype);
        auto* in_place = static_cast<std::byte*>(inputs.front().data_ptr());
        tree_reduce({dtype, op, world}, leaves, {static_cast<std::byte*>(out.data_ptr()), in_place}, count);
        EXPECT_TRUE(same_bits(out, expected)) << dtype << " op " << static_cast<int>(op) << " world " << world;
        EXPECT_TRUE(same_bits(inputs.front(), expected));
      }
    }
  }
}

TEST(TreeReduce, AddsAnyNumberOfRanks) {
  for (const int world : {2048, 2049, 4095, 4096, 5000, 10001}) {
    const at::Tensor values = random_values(at::kFloat, world, 0);
    std::vector<at::Tensor> inputs;
    std::vector<TreeLeaf> leaves;
    for (int rank = 0; rank < world; ++rank) {
      inputs.push_back(values[rank].view({1}));
      leaves.push_back({static_cast<const std::byte*>(inputs.back().data_ptr()), {rank, rank + 1}});
    }
    at::Tensor out = at::empty({1}, at::kFloat);
    tree_reduce({at::kFloat, ReduceOp::kSum, world}, leaves, {static_cast<std::byte*>(out.data_ptr())}, 1);
    EXPECT_TRUE(same_bits(out, model(inputs, ReduceOp::kSum))) << world;
  }
}

TEST(TreeReduce, AddsLeavesOfEverSmallerSubtrees) {  // each right subtree is one level deeper
  const at::Tensor values = random_values(at::kFloat, 21, 0);
  std::vector<TreeLeaf> leaves;
  int begin = 0;
  for (int i = 0; i < 21; ++i) {
    const int end = i == 20 ? 1 << 20 : begin + (1 << (19 - i));
    leaves.push_back({static_cast<const std::byte*>(values[i].data_ptr()), {begin, end}});
    begin = end;
  }
  at::Tensor expected = values[20];
  for (int i = 19; i >= 0; --i) expected = values[i].add(expected);
  at::Tensor out = at::empty({1}, at::kFloat);
  tree_reduce({at::kFloat, ReduceOp::kSum}, leaves, {static_cast<std::byte*>(out.data_ptr())}, 1);
  EXPECT_TRUE(same_bits(out, expected.view({1})));
}

TEST(TreeReduce, ConvertsEveryHalfAndRoundsEveryEdgeLikeLibtorch) {
  std::vector<std::int16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::int16_t>(i);
  const at::Tensor zeros = at::zeros({65536}, at::kFloat);
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor all = at::from_blob(bits.data(), {65536}, at::kShort).clone().view(dtype);
    const at::Tensor other = all.flip(0).contiguous();
    at::Tensor out = at::empty({65536}, dtype);
    tree_reduce({dtype, ReduceOp::kSum},
                {{static_cast<const std::byte*>(all.data_ptr()), {0, 1}},
                 {static_cast<const std::byte*>(other.data_ptr()), {1, 2}}},
                {static_cast<std::byte*>(out.data_ptr())}, 65536);
    const at::Tensor expected = all.to(at::kFloat).add(other.to(at::kFloat)).to(dtype);
    const at::Tensor numbers = expected.isnan().logical_not();
    EXPECT_TRUE(same_bits(out.masked_select(numbers), expected.masked_select(numbers)));
    EXPECT_TRUE(at::equal(out.isnan(), expected.isnan()));
  }
}

TEST(TreeReduce, LetsANotANumberWinMinAndMax) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    float a[] = {nan, 1, 2};
    float b[] = {1, nan, 3};
    float out[3];
    tree_reduce({at::kFloat, op},
                {{reinterpret_cast<std::byte*>(a), {0, 1}}, {reinterpret_cast<std::byte*>(b), {1, 2}}},
                {reinterpret_cast<std::byte*>(out)}, 3);
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
    EXPECT_EQ(out[2], op == ReduceOp::kMin ? 2 : 3);
  }
}

// libtorch's operations in tree order against our kernel, on the CPU, which can run both.

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

// The numbers that each of `size` ranks holds after all rounds, starting with its own.
std::vector<std::vector<int>> gathered(int size) {
  std::vector<std::vector<int>> has(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) has[static_cast<std::size_t>(rank)] = {rank};
  const std::size_t count = gather_rounds(0, size).size();
  for (std::size_t round = 0; round < count; ++round) {
    const auto before = has;
    for (int rank = 0; rank < size; ++rank) {
      const GatherRound own = gather_rounds(rank, size)[round];
      const GatherRound theirs = gather_rounds(own.from, size)[round];
      EXPECT_EQ(theirs.to, rank) << "whom it hears from sends to it";
      EXPECT_EQ(theirs.count, own.count);
      EXPECT_EQ(own.known, static_cast<int>(before[static_cast<std::size_t>(rank)].size()));
      const auto& source = before[static_cast<std::size_t>(own.from)];
      auto& target = has[static_cast<std::size_t>(rank)];
      target.insert(target.end(), source.begin(), source.begin() + own.count);
    }
  }
  return has;
}

TEST(GatherRounds, TellEveryRankWhatAllKnowInTheOrderOfTheRing) {
  for (const int size : {1, 2, 3, 5, 8, 9, 17, 32, 100}) {
    const auto has = gathered(size);
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_EQ(has[static_cast<std::size_t>(rank)].size(), static_cast<std::size_t>(size)) << rank << " of " << size;
      for (int i = 0; i < size; ++i) {
        EXPECT_EQ(has[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)], (rank + i) % size);
      }
    }
  }
}

TEST(GatherRounds, AreAsManyAsTheLogarithm) {
  EXPECT_EQ(gather_rounds(0, 1).size(), 0U);
  EXPECT_EQ(gather_rounds(3, 8).size(), 3U);
  EXPECT_EQ(gather_rounds(3, 9).size(), 4U);
  EXPECT_EQ(gather_rounds(99, 1024).size(), 10U);
}

/// Receives everything before it sends anything, as if all peers were slow to read. All values that it receives are 1.
class LateSender final : public Transport {
 public:
  explicit LateSender(int size) { world_.size = size; }

  [[nodiscard]] const World& world() const override { return world_; }
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Collective& collective) override {
    exchange_in_parts(sends, receives, collective, {});
  }
  void exchange_in_parts(const std::vector<Message>& sends, const std::vector<Message>& receives,
                         const Collective& /*collective*/, const Arrived& arrived) override {
    for (const Message& message : receives) {
      std::fill_n(reinterpret_cast<float*>(message.data), message.bytes / sizeof(float), 1.0F);
    }
    if (arrived) arrived(receives.front().bytes);
    for (const Message& message : sends) {
      const auto* values = reinterpret_cast<const float*>(message.data);
      sent_[message.rank].insert(sent_[message.rank].end(), values, values + message.bytes / sizeof(float));
    }
  }
  [[nodiscard]] const std::map<int, std::vector<float>>& sent() const { return sent_; }

 private:
  World world_;
  std::map<int, std::vector<float>> sent_;
};

TEST(ExchangeReduce, SendsItsRowsToSlowPeersAsTheyWereBeforeTheResult) {
  constexpr int kRanks = 9;  // enough for is_large()
  std::vector<float> rows{1, 2, 3, 4, 10, 20, 30, 40};
  const std::vector<float> before = rows;
  ExchangeReduce job;
  job.reduction = {at::kFloat, ReduceOp::kSum};
  job.leaf_bytes = job.result_bytes = sizeof(float);
  job.row_bytes = 4 * sizeof(float);
  job.output = reinterpret_cast<std::byte*>(rows.data());
  job.rows = job.output;
  job.contributors.push_back({0, {0, 4}, {ReplicaSpan{0, 1}, ReplicaSpan{1, 2}}});
  for (int rank = 1; rank < kRanks; ++rank) {
    job.contributors.push_back({rank, {0, 4}, {ReplicaSpan{rank + 1, rank + 2}}});
  }
  LateSender transport(kRanks);
  std::vector<std::byte> scratch;
  exchange_and_reduce(transport, job, Collective{}, scratch);
  ASSERT_EQ(transport.sent().size(), static_cast<std::size_t>(kRanks - 1));
  for (const auto& [rank, values] : transport.sent()) EXPECT_EQ(values, before) << "to rank " << rank;
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + 4), (std::vector<float>{19, 30, 41, 52}));
}

constexpr int kWorld = 5;

Descriptor descriptor(Kind kind, std::int64_t numel) {
  Descriptor what;
  what.kind = kind;
  what.numel = numel;
  what.root = 2;
  return what;
}

class Moves : public ::testing::TestWithParam<Kind> {};

TEST_P(Moves, FromEveryRankAreTheMovesToTheOthers) {
  const Descriptor what = descriptor(GetParam(), 35);
  const MovePlan plan{what, nullptr, 4, kWorld};
  std::map<std::pair<int, int>, Move> to;
  for (int rank = 0; rank < kWorld; ++rank) {
    for (const Move& move : moves_to(plan, rank)) {
      ASSERT_EQ(move.to, rank);
      ASSERT_LE(move.offset + move.bytes, outbox_bytes(plan, move.from));
      if (move.from != rank) to[{move.from, rank}] = move;
    }
  }
  std::size_t count = 0;
  for (int rank = 0; rank < kWorld; ++rank) {
    for (const Move& move : moves_from(plan, rank)) {
      ASSERT_EQ(move.from, rank);
      const auto found = to.find({rank, move.to});
      ASSERT_NE(found, to.end());
      EXPECT_EQ(found->second.offset, move.offset);
      EXPECT_EQ(found->second.place, move.place);
      EXPECT_EQ(found->second.bytes, move.bytes);
      ++count;
    }
  }
  EXPECT_EQ(count, to.size());
  EXPECT_GT(count, 0U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Moves,
                         ::testing::Values(Kind::kBroadcast, Kind::kAllGather, Kind::kAllGatherInto, Kind::kAllToAll,
                                           Kind::kGather, Kind::kScatter));

TEST(Moves, OfUnevenPartsFollowOneAnother) {
  const Descriptor what = descriptor(Kind::kAllGather, 9);
  const auto counts = std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{2, 0, 7});
  const MovePlan plan{what, counts, 8, 3};
  const std::vector<Move> moves = moves_to(plan, 1);
  ASSERT_EQ(moves.size(), 2U);
  EXPECT_EQ(moves[1].from, 2);
  EXPECT_EQ(moves[1].place, 16U);
  EXPECT_EQ(moves[1].bytes, 56U);
}

TEST(EqualPart, IsThatOfEveryRankWhereTheElementsCanBeDealtOut) {
  for (const Kind kind : {Kind::kAllGatherInto, Kind::kReduceScatter}) {
    EXPECT_EQ(equal_part({.call = descriptor(kind, 35)}, kWorld), 7) << name_of(kind);
    EXPECT_EQ(equal_part({.call = descriptor(kind, 0)}, kWorld), 0) << name_of(kind);
    EXPECT_EQ(equal_part({.call = descriptor(kind, 36)}, kWorld), std::nullopt) << name_of(kind);
    EXPECT_EQ(equal_part({.call = descriptor(kind, 4)}, kWorld), std::nullopt) << "the last rank has nothing";
  }
}

TEST(EqualPart, OfAnAllGatherIsWhatEachRankBrings) {
  Collective collective{.call = descriptor(Kind::kAllGather, 12)};
  EXPECT_EQ(equal_part(collective, 3), 12);
  collective.counts = std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{4, 4, 4});
  EXPECT_EQ(equal_part(collective, 3), 4);
  collective.counts = std::make_shared<const std::vector<std::int64_t>>(std::vector<std::int64_t>{4, 4, 5});
  EXPECT_EQ(equal_part(collective, 3), std::nullopt);
}

TEST(EqualPart, IsNoneOfACollectiveThatGivesRanksOtherThings) {
  for (const Kind kind : {Kind::kAllReduce, Kind::kBroadcast, Kind::kAllToAll, Kind::kGather, Kind::kScatter}) {
    EXPECT_EQ(equal_part({.call = descriptor(kind, 35)}, kWorld), std::nullopt) << name_of(kind);
  }
}

TEST(ShardOf, CoversEveryElementOnce) {
  for (const std::int64_t numel : {0, 1, 3, 7, 8, 100}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < kWorld; ++rank) {
      const ElementRange shard = shard_of(numel, kWorld, rank);
      EXPECT_EQ(shard.begin, std::min(next, numel));
      EXPECT_GE(shard.size(), 0);
      next = shard.end;
    }
    EXPECT_EQ(next, numel);
  }
}

}  // namespace tree_reduce_test
}  // namespace lockstep::comm

namespace lockstep {
namespace tree_reduce_test {

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

/// The sums that the ranks of a world publish for `inputs`, one per replica, added in the order they finish.
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
    const std::vector<at::Tensor> own(inputs.begin() + block.begin, inputs.begin() + block.end);
    rows.push_back(partial_sums(own, block, 11));
  }
  const std::vector<PartialSum> published = publish(inputs, 3);
  const at::Tensor all = at::cat(rows);
  ASSERT_EQ(all.size(0), static_cast<std::int64_t>(published.size()));
  for (std::size_t i = 0; i < published.size(); ++i) {
    EXPECT_TRUE(comm::same_bits(all[static_cast<std::int64_t>(i)], published[i].value));
  }
}

TEST(Replicas, PartialSumsOf16BitValuesGiveTheSameBitsOnEveryWorld) {
  // In bfloat16 259 rounds to 260, but 256 + 1 to 256.
  std::vector<at::Tensor> inputs;
  for (const double value : {256, 1, 1, 1}) inputs.push_back(at::full({3}, value, at::kBFloat16));
  for (const int world : {1, 2, 4}) {
    std::vector<PartialSum> parts;
    for (int rank = 0; rank < world; ++rank) {
      const ReplicaSpan block = replicas_of_rank(rank, world, 4);
      const std::vector<at::Tensor> own(inputs.begin() + block.begin, inputs.begin() + block.end);
      const at::Tensor rows = partial_sums(own, block, 4);
      EXPECT_EQ(rows.scalar_type(), at::kFloat);
      ASSERT_EQ(rows.size(0), 1);
      parts.push_back({rows[0], block});
    }
    const at::Tensor sum = at::empty({3}, at::kFloat);
    tree_sum(parts, sum);
    EXPECT_TRUE(comm::same_bits(sum.to(at::kBFloat16), at::full({3}, 260.0, at::kBFloat16))) << world << " ranks";
  }
}

}  // namespace tree_reduce_test
}  // namespace lockstep
