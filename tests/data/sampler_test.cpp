// SPDX-License-Identifier: Apache-2.0
// Samplers against PyTorch's, and in edge cases.
#include <ATen/core/ivalue.h>  // before any other torch header: otherwise Clang cannot compile libtorch 1.13

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "data/hash.h"
#include "lockstep/base/error.h"
#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/sampler.h"

namespace lockstep {
namespace sampler_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Indices = std::vector<std::int64_t>;

// The sampler against PyTorch's indices (golden/make_sampler.py) and in edge cases.

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

// Orders of a whole dataset against PyTorch's (golden/make_samplers.py), batch samplers, and the rest of an epoch.

Indices numbers(std::int64_t from, std::int64_t to) {
  Indices all(static_cast<std::size_t>(to - from));
  std::iota(all.begin(), all.end(), from);
  return all;
}

nlohmann::json golden(const std::string& kind) {
  std::ifstream file(LOCKSTEP_TEST_SOURCE_DIR "/tests/data/golden/samplers.json");
  nlohmann::json found = nlohmann::json::array();
  for (const auto& entry : nlohmann::json::parse(file)) {
    if (entry["kind"] == kind) found.push_back(entry);
  }
  return found;
}

RandomSamplerOptions options_of(const nlohmann::json& entry) {
  return {.seed = entry["seed"], .replacement = entry["replacement"], .count = entry["count"]};
}

TEST(RandomSampler, GivesPyTorchsIndices) {
  ASSERT_THAT(golden("random"), SizeIs(5));
  for (const auto& entry : golden("random")) {
    const RandomSampler sampler(entry["size"], options_of(entry));
    const Indices expected = entry["indices"];
    EXPECT_EQ(sampler.indices(entry["epoch"]), expected) << entry;
    EXPECT_EQ(sampler.size(), std::ssize(expected));
  }
}

TEST(WeightedSampler, GivesPyTorchsIndices) {
  ASSERT_THAT(golden("weighted"), SizeIs(3));
  for (const auto& entry : golden("weighted")) {
    const WeightedSampler sampler(entry["weights"], options_of(entry));
    EXPECT_EQ(sampler.indices(entry["epoch"]), entry["indices"].get<Indices>()) << entry;
  }
}

TEST(WeightedSampler, RefusesWeightsThatAreNone) {
  EXPECT_THROW(WeightedSampler({1.0, -0.5}), UsageError);
  EXPECT_THROW(WeightedSampler({1.0, std::numeric_limits<double>::quiet_NaN()}), UsageError);
  EXPECT_THROW(WeightedSampler({0.0, 0.0}), UsageError);
  EXPECT_THROW(WeightedSampler({1.0, 0.0}, {.replacement = false}), UsageError) << "2 of 1 without replacement";
}

TEST(RandomSampler, RefusesToDrawFromNothing) {
  EXPECT_THROW(RandomSampler(0, {.count = 3}), UsageError);
  EXPECT_THROW(RandomSampler(-1), UsageError);
  EXPECT_THROW((void)RandomSampler(3).indices(-1), UsageError);
}

TEST(SequentialBatches, AreThoseOfPyTorchsBatchSampler) {
  ASSERT_THAT(golden("batches"), SizeIs(4));
  for (const auto& entry : golden("batches")) {
    const SequentialBatches sampler(std::make_shared<SequentialSampler>(entry["size"].get<std::int64_t>()),
                                    entry["batch_size"], entry["drop_last"]);
    EXPECT_EQ(sampler.batches(0), entry["batches"].get<BatchIndices>()) << entry;
    EXPECT_EQ(sampler.size(), std::ssize(entry["batches"])) << entry;
  }
}

TEST(LengthBatches, PutSamplesOfLikeLengthTogether) {
  const std::vector<std::int64_t> lengths = {3, 12, 5, 30, 4, 11, 9, 31, 2, 10};
  const LengthBatches sampler(lengths, {.batch_size = 2, .boundaries = {5, 12}, .seed = 4});
  EXPECT_EQ(sampler.size(), 5);
  std::map<std::int64_t, int> seen;
  for (const auto& batch : sampler.batches(1)) {
    const auto bucket = [&](std::int64_t i) {
      const std::int64_t n = lengths[static_cast<std::size_t>(i)];
      return n <= 5 ? 0 : n <= 12 ? 1 : 2;
    };
    for (const std::int64_t i : batch) {
      ++seen[i];
      EXPECT_EQ(bucket(i), bucket(batch.front()));
    }
  }
  EXPECT_THAT(seen, SizeIs(10));
  EXPECT_EQ(sampler.batches(1), sampler.batches(1));
  EXPECT_NE(sampler.batches(1), sampler.batches(2));
}

TEST(LengthBatches, LeaveOutWhatDoesNotFillABatchOfItsBucket) {
  const LengthBatches all({1, 1, 1, 9}, {.batch_size = 2, .boundaries = {5}, .shuffle = false});
  EXPECT_THAT(all.batches(0), ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3)));
  const LengthBatches full({1, 1, 1, 9}, {.batch_size = 2, .boundaries = {5}, .shuffle = false, .drop_last = true});
  EXPECT_THAT(full.batches(0), ElementsAre(ElementsAre(0, 1)));
  EXPECT_EQ(full.size(), 1);
  EXPECT_THROW(LengthBatches({1}, {.batch_size = 1, .boundaries = {5, 5}}), UsageError);
}

TEST(DealRest, LosesAndDoublesNoIndexAndGivesAllShardsAsManySteps) {
  for (const std::int64_t left : {1, 2, 3, 5, 7, 24, 25, 26, 97}) {
    for (const std::int64_t shards : {1, 2, 3, 5}) {
      std::map<std::int64_t, int> seen;
      std::set<std::size_t> steps;
      for (std::int64_t shard = 0; shard < shards; ++shard) {
        const auto batches = deal_rest(numbers(100, 100 + left), {shard, shards}, 4);
        steps.insert(batches.size());
        for (const auto& batch : batches) {
          EXPECT_GE(batch.size(), 1U);
          EXPECT_LE(batch.size(), 5U);
          for (const std::int64_t index : batch) ++seen[index];
        }
      }
      EXPECT_THAT(steps, SizeIs(1)) << left << " on " << shards;
      EXPECT_THAT(seen, SizeIs(static_cast<std::size_t>(left)));
      if (left < shards) continue;
      for (const auto& [index, times] : seen) EXPECT_EQ(times, 1) << index << " of " << left << " on " << shards;
    }
  }
}

}  // namespace sampler_test
}  // namespace lockstep
