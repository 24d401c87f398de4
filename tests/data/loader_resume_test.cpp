// SPDX-License-Identifier: Apache-2.0
// A loop that is killed at any batch and goes on, with other workers and other numbers of shards: which samples are
// seen, and how often.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/data/loader.h"

namespace lockstep {
namespace loader_resume_test {

using ::testing::HasSubstr;

using Seen = std::map<std::int64_t, int>;

constexpr std::int64_t kSize = 53;
constexpr std::int64_t kEpoch = 3;

std::shared_ptr<Dataset> numbers() {
  return make_dataset(kSize, [](std::int64_t i) { return Sample{at::full({1}, i, at::kLong), {}, {}}; });
}

DataLoaderOptions options(std::int64_t shards, std::int64_t shard, std::int64_t workers = 0) {
  return {.batch_size = 4, .workers = workers, .shuffle = true, .seed = 8, .shard = {shard, shards}, .elastic = true};
}

/// Every shard takes at most `steps` batches from where `from` says; counts what they see.
LoaderState run(std::int64_t shards, std::optional<LoaderState> from, std::int64_t steps, Seen& seen) {
  LoaderState reached;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    DataLoader loader(numbers(), options(shards, shard, shard % 3));
    auto pass = from ? loader.resume(*from) : loader.epoch(kEpoch);
    for (std::int64_t step = 0; step < steps; ++step) {
      const Batch* batch = pass.next();
      if (batch == nullptr) break;
      for (const std::int64_t index : batch->indices) ++seen[index];
    }
    const LoaderState state = loader.state();
    if (shard > 0) {
      EXPECT_EQ(state, reached) << "shard " << shard << " of " << shards;
    }
    reached = state;
  }
  return reached;
}

TEST(LoaderState, GoesOnToTheSameEpochAfterAKillAtAnyBatch) {
  for (const std::int64_t shards : {1, 2, 3}) {
    Seen whole;
    (void)run(shards, std::nullopt, 1000, whole);
    for (std::int64_t kill = 0; kill <= kSize / (4 * shards) + 1; ++kill) {
      Seen seen;
      const LoaderState state = run(shards, std::nullopt, kill, seen);
      EXPECT_EQ(state.epoch, kEpoch);
      (void)run(shards, state, 1000, seen);
      EXPECT_EQ(seen, whole) << "killed after batch " << kill << " on " << shards;
    }
  }
}

TEST(LoaderState, DealsTheRestOutAnewWhenTheWorldHasChanged) {
  for (const std::int64_t before : {1, 2, 3}) {
    for (const std::int64_t after : {1, 2, 3, 5}) {
      if (before == after) continue;
      for (std::int64_t kill = 1; kill * 4 * before < kSize - after; ++kill) {
        Seen seen;
        const LoaderState state = run(before, std::nullopt, kill, seen);
        (void)run(after, state, 1000, seen);
        ASSERT_EQ(seen.size(), static_cast<std::size_t>(kSize)) << before << " -> " << after << " at " << kill;
        for (const auto& [index, times] : seen) ASSERT_EQ(times, 1) << index << ": " << before << " -> " << after;
      }
    }
  }
}

TEST(LoaderState, SurvivesSeveralChangesOfTheWorldInOneEpoch) {
  for (std::int64_t first = 1; first < 4; ++first) {
    for (std::int64_t second = 0; second < 4; ++second) {
      Seen seen;
      LoaderState state = run(3, std::nullopt, first, seen);
      state = run(2, state, second, seen);
      state = run(5, state, 1, seen);
      (void)run(1, state, 1000, seen);
      ASSERT_EQ(seen.size(), static_cast<std::size_t>(kSize)) << first << ", " << second;
      for (const auto& [index, times] : seen) ASSERT_EQ(times, 1) << index << ": " << first << ", " << second;
    }
  }
}

TEST(LoaderState, CountsOnlyBatchesThatTheLoopHasTaken) {
  DataLoader loader(numbers(), {.batch_size = 4, .workers = 3, .prefetch_factor = 4});
  auto pass = loader.epoch(2);
  EXPECT_NE(pass.next(), nullptr);
  EXPECT_NE(pass.next(), nullptr);
  EXPECT_EQ(loader.state(), (LoaderState{.epoch = 2, .batches = 2, .size = kSize, .batch_size = 4}));
}

std::string refusal(const LoaderState& state, DataLoaderOptions changed) {
  DataLoader loader(numbers(), std::move(changed));
  try {
    (void)loader.resume(state);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(LoaderState, IsRefusedWhereTheContinuationWouldBeAnother) {
  DataLoader loader(numbers(), options(2, 0));
  const LoaderState state = loader.state();
  DataLoaderOptions other_seed = options(2, 0);
  other_seed.seed = 9;
  EXPECT_THAT(refusal(state, other_seed), HasSubstr("seed 8 and would go on with 9"));
  DataLoaderOptions narrow = options(1, 0);
  narrow.elastic = false;
  EXPECT_THAT(refusal(state, narrow), HasSubstr("2 shards x batch_size 4 and would go on with 1 x 4"));
  LoaderState larger = state;
  larger.size = 54;
  EXPECT_THAT(refusal(larger, options(2, 0)), HasSubstr("a set of size 54"));
}

}  // namespace loader_resume_test
}  // namespace lockstep
