// SPDX-License-Identifier: Apache-2.0
#include "comm/core/gather.h"

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace gather_test {

// What each of `size` ranks has after all rounds, where it begins with its own number.
std::vector<std::vector<int>> gathered(int size) {
  std::vector<std::vector<int>> has(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) has[static_cast<std::size_t>(rank)] = {rank};
  const std::size_t count = gather_rounds(0, size).size();
  for (std::size_t round = 0; round < count; ++round) {
    const auto before = has;
    for (int rank = 0; rank < size; ++rank) {
      const GatherRound mine = gather_rounds(rank, size)[round];
      const GatherRound theirs = gather_rounds(mine.from, size)[round];
      EXPECT_EQ(theirs.to, rank) << "whom it hears from sends to it";
      EXPECT_EQ(theirs.count, mine.count);
      EXPECT_EQ(mine.known, static_cast<int>(before[static_cast<std::size_t>(rank)].size()));
      const auto& source = before[static_cast<std::size_t>(mine.from)];
      auto& target = has[static_cast<std::size_t>(rank)];
      target.insert(target.end(), source.begin(), source.begin() + mine.count);
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

}  // namespace gather_test
}  // namespace lockstep::comm
