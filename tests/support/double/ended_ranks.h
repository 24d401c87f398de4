// SPDX-License-Identifier: Apache-2.0
// How ranks ended after an ordered fault, and the time they took.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "support/run_ranks.h"

namespace lockstep::testing {

struct EndedRanks {
  std::vector<RankEnd> ranks;
  std::chrono::duration<double> time;
};

inline EndedRanks ended_ranks(const std::function<void(Job&)>& body, const RanksOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  RankProcesses ranks(current_test(), body, options);
  std::vector<RankEnd> ends = ranks.wait();
  return {std::move(ends), std::chrono::steady_clock::now() - begin};
}

/// Expects ranks 0 and 2 of three to name rank 1 in their errors.
inline void expect_the_others_to_name_rank_1(const EndedRanks& ended) {
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(ended.ranks[rank].code, 75) << ended.ranks[rank].log;
    EXPECT_THAT(ended.ranks[rank].log, ::testing::HasSubstr("rank 1 on "));
    EXPECT_THAT(ended.ranks[rank].log, ::testing::Not(::testing::HasSubstr("IOMMU")));
  }
  EXPECT_LT(ended.time, std::chrono::seconds(30)) << "far below the timeout";
}

}  // namespace lockstep::testing
