// SPDX-License-Identifier: Apache-2.0
#include "train/setup/batch_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace lockstep::train {
namespace batch_search_test {

struct Search {
  std::int64_t found = 0;
  std::vector<std::int64_t> tried;
};

/// With a memory that holds `limit` samples.
Search search(std::int64_t most, std::int64_t limit) {
  Search search;
  search.found = largest_batch(most, [&](std::int64_t batch) {
    search.tried.push_back(batch);
    return batch <= limit;
  });
  return search;
}

/// By counting instead of searching.
std::int64_t expected(std::int64_t most, std::int64_t limit) {
  if (limit >= most) return most;
  return limit < 8 ? limit : limit / 8 * 8;
}

TEST(BatchSearch, FindsTheLargestForEveryLimitAndEveryDataSet) {
  for (std::int64_t most = 1; most <= 150; ++most) {
    for (std::int64_t limit = 0; limit <= 160; ++limit) {
      ASSERT_EQ(search(most, limit).found, expected(most, limit)) << "most " << most << ", limit " << limit;
    }
  }
}

TEST(BatchSearch, FindsTheLargestAmongMany) {
  for (const std::int64_t limit : {511, 512, 513, 1000, 4095, 40'000, 65'535, 65'536, 1'000'000}) {
    EXPECT_EQ(search(65'536, limit).found, expected(65'536, limit)) << limit;
  }
}

TEST(BatchSearch, WhereNothingFitsItIsZeroAfterAHandfulOfTrials) {
  const Search nothing = search(65'536, 0);
  EXPECT_EQ(nothing.found, 0);
  EXPECT_EQ(nothing.tried, (std::vector<std::int64_t>{8, 4, 2, 1}));
}

TEST(BatchSearch, WhereEverythingFitsItIsTheWholeDataSet) {
  const Search all = search(100, 1'000'000);
  EXPECT_EQ(all.found, 100);
  EXPECT_EQ(all.tried, (std::vector<std::int64_t>{8, 16, 32, 64, 100}));
}

TEST(BatchSearch, NoTrialIsRepeatedNorBeyondTheMostNorTwiceWhatFits) {
  for (const std::int64_t most : {1, 7, 8, 9, 1000, 65'536}) {
    for (const std::int64_t limit : {0, 1, 7, 8, 20, 333, 5000, 70'000}) {
      const Search one = search(most, limit);
      EXPECT_EQ(std::set(one.tried.begin(), one.tried.end()).size(), one.tried.size());
      EXPECT_LE(*std::max_element(one.tried.begin(), one.tried.end()),
                std::min(most, std::max<std::int64_t>(8, 2 * limit)));
      EXPECT_LE(static_cast<double>(one.tried.size()), 2 * std::log2(std::max(1.0, static_cast<double>(most) / 8)) + 4);
    }
  }
}

TEST(BatchSearch, WithoutSamplesNothingIsTried) {
  EXPECT_EQ(search(0, 100).found, 0);
  EXPECT_TRUE(search(0, 100).tried.empty());
}

}  // namespace batch_search_test
}  // namespace lockstep::train
