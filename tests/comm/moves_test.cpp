// SPDX-License-Identifier: Apache-2.0
#include "comm/core/moves.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep::comm {
namespace moves_test {

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

}  // namespace moves_test
}  // namespace lockstep::comm
