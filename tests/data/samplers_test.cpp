// SPDX-License-Identifier: Apache-2.0
// Orders of a whole set against PyTorch's (golden/make_samplers.py), batch samplers, and the rest of an epoch.
#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/sampler.h"

namespace lockstep {
namespace samplers_test {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using Indices = std::vector<std::int64_t>;

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

}  // namespace samplers_test
}  // namespace lockstep
