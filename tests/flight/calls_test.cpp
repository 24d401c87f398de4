// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/calls.h"

#include <gtest/gtest.h>

namespace lockstep::flight {
namespace calls_test {

// It calls `name` as operation 12, which fails.
RankFacts rank_that_calls(int number, const std::string& name, std::uint64_t bytes = 4000) {
  RankFacts facts{.rank = number, .ring = Snapshot{.rank = number}};
  for (const What what : {What::kCollectiveBegin, What::kCollectiveFailed}) {
    facts.ring->events.push_back(
        {.time_ns = 100 + number, .what = what, .name = name, .sequence = 12, .bytes = bytes, .step = 77});
  }
  return facts;
}

TEST(OddCall, IsThatOfTheRankThatIsNotOfTheMajority) {
  const auto odd = find_odd_call(
      {rank_that_calls(0, "all_reduce"), rank_that_calls(1, "all_reduce"), rank_that_calls(2, "barrier")});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, 2);
  EXPECT_EQ(odd->text, "rank 2 called barrier as operation 12 in step 77, where ranks 0, 1 called all_reduce");
}

TEST(OddCall, IsFoundByItsSizeWhereTheNamesAreTheSame) {
  const auto odd = find_odd_call(
      {rank_that_calls(0, "all_reduce", 8), rank_that_calls(1, "all_reduce"), rank_that_calls(2, "all_reduce")});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->rank, 0);
}

TEST(OddCall, ThereIsNoneAmongTwoRanksOrWhereAllCalledTheSame) {
  EXPECT_FALSE(find_odd_call({rank_that_calls(0, "all_reduce"), rank_that_calls(1, "barrier")}));
  EXPECT_FALSE(find_odd_call({rank_that_calls(0, "barrier"), rank_that_calls(1, "barrier")}));
  EXPECT_FALSE(find_odd_call({{.rank = 0}, {.rank = 1}}));
}

}  // namespace calls_test
}  // namespace lockstep::flight
