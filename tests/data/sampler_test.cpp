// SPDX-License-Identifier: Apache-2.0
// The samplers against PyTorch's indices (golden/make_sampler.py) and at their edges.
#include "lockstep/data/sampler.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "data/hash.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace sampler_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Indices = std::vector<std::int64_t>;

TEST(DistributedSampler, GivesPyTorchsIndicesIn200Settings) {
  std::ifstream file(LOCKSTEP_TEST_SOURCE_DIR "/tests/data/golden/sampler.json");
  const auto settings = nlohmann::json::parse(file);
  ASSERT_EQ(settings.size(), 200U);
  for (const auto& setting : settings) {
    const DistributedSampler sampler(setting["size"], {setting["rank"], setting["replicas"]},
                                     {setting["shuffle"], setting["seed"], setting["drop_last"]});
    const Indices indices = sampler.indices(setting["epoch"]);
    const Indices first(indices.begin(), indices.begin() + std::min<std::ptrdiff_t>(4, std::ssize(indices)));
    EXPECT_EQ(first, setting["first"].get<Indices>()) << setting;
    EXPECT_EQ(std::ssize(indices), setting["length"].get<std::int64_t>()) << setting;
    EXPECT_EQ(sampler.size(), std::ssize(indices)) << setting;
    const std::string hash = test::fnv1a(indices.data(), indices.size() * sizeof(std::int64_t));
    EXPECT_EQ(hash, setting["fnv1a"].get<std::string>()) << setting;
  }
}

TEST(DistributedSampler, PadsByRepeatingFromTheStart) {
  EXPECT_THAT(DistributedSampler(5, {0, 2}, {.shuffle = false}).indices(0), ElementsAre(0, 2, 4));
  EXPECT_THAT(DistributedSampler(5, {1, 2}, {.shuffle = false}).indices(0), ElementsAre(1, 3, 0));
}

TEST(DistributedSampler, RepeatsASetThatIsSmallerThanItsPadding) {
  EXPECT_THAT(DistributedSampler(2, {6, 7}, {.shuffle = false}).indices(0), ElementsAre(0));
  EXPECT_THAT(DistributedSampler(2, {5, 7}, {.shuffle = false}).indices(0), ElementsAre(1));
}

TEST(DistributedSampler, DropLastLeavesTheRemainderOut) {
  EXPECT_THAT(DistributedSampler(5, {1, 2}, {.shuffle = false, .drop_last = true}).indices(0), ElementsAre(1, 3));
  EXPECT_THAT(DistributedSampler(2, {0, 3}, {.drop_last = true}).indices(0), IsEmpty());
}

TEST(DistributedSampler, GivesNothingOfAnEmptySet) {
  EXPECT_THAT(DistributedSampler(0, {1, 3}).indices(4), IsEmpty());
  EXPECT_THAT(EvaluationSampler(0, {1, 3}).indices(), IsEmpty());
}

TEST(DistributedSampler, RefusesAShardThatDoesNotExist) {
  EXPECT_THROW(DistributedSampler(5, {2, 2}), UsageError);
  EXPECT_THROW(DistributedSampler(5, {-1, 2}), UsageError);
  EXPECT_THROW(DistributedSampler(5, {0, 0}), UsageError);
  EXPECT_THROW(DistributedSampler(-1), UsageError);
  EXPECT_THROW((void)DistributedSampler(5).indices(-1), UsageError);
}

TEST(EvaluationSampler, GivesEachIndexToExactlyOneShard) {
  for (const std::int64_t size : {1, 2, 7, 8, 100}) {
    for (const std::int64_t count : {1, 2, 3, 7, 9}) {
      std::multiset<std::int64_t> seen;
      for (std::int64_t shard = 0; shard < count; ++shard) {
        const EvaluationSampler sampler(size, {shard, count});
        const Indices indices = sampler.indices();
        EXPECT_EQ(std::ssize(indices), sampler.size());
        seen.insert(indices.begin(), indices.end());
      }
      ASSERT_EQ(std::ssize(seen), size) << count << " shards";
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), size - 1);
      EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size()) << "an index came twice";
    }
  }
}

}  // namespace sampler_test
}  // namespace lockstep
