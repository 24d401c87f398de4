// SPDX-License-Identifier: Apache-2.0
// Looping over the loader: order, shards, errors, and resuming after a kill.
#include <ATen/core/ivalue.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/datasets/base.h>

#include <atomic>
#include <fstream>
#include <latch>
#include <map>
#include <numeric>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/sampler.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace loader_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

std::shared_ptr<Dataset> numbers(std::int64_t size) {
  return make_dataset(size, [](std::int64_t i) {
    return Sample{at::full({2}, i, at::kLong), at::full({}, -i, at::kLong)};
  });
}

// Random numbers written in place: each sample is {index, 53 random bits}.
class RandomRows final : public FixedShapeDataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 50; }
  [[nodiscard]] SampleSpec spec() const override { return {{2}, c10::ScalarType::Double, {}}; }
  void get_into(std::int64_t index, SampleContext& context, SampleSlot slot) override {
    slot.data_as<double>()[0] = static_cast<double>(index);
    slot.data_as<double>()[1] = context.random.uniform();
  }
};

struct FakeJob {
  ShardSpec part;
  [[nodiscard]] ShardSpec shard() const { return part; }
};

Indices consumed(DataLoader& loader, std::int64_t epoch, std::int64_t start_batch = 0) {
  Indices all;
  std::int64_t step = start_batch;
  for (auto& batch : loader.epoch(epoch, start_batch)) {
    EXPECT_EQ(batch.step, step++);
    EXPECT_EQ(batch.size, std::ssize(batch.indices));
    EXPECT_EQ(batch.data.size(0), batch.size);
    for (std::int64_t i = 0; i < batch.size; ++i) {
      const std::int64_t index = batch.indices[static_cast<std::size_t>(i)];
      EXPECT_EQ(batch.data[i][1].item().toLong(), index);
      EXPECT_EQ(batch.target[i].item().toLong(), -index);
    }
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  }
  return all;
}

TEST(DataLoader, GivesBatchesInOrderWhateverTheWorkers) {
  const Indices expected = DistributedSampler(103, {1, 3}, {.shuffle = true, .seed = 9}).indices(4);
  for (const std::int64_t workers : {0, 1, 2, 5}) {
    for (const std::int64_t prefetch : {1, 2, 4}) {
      DataLoader loader(numbers(103), {.batch_size = 4,
                                       .workers = workers,
                                       .prefetch_factor = prefetch,
                                       .shuffle = true,
                                       .seed = 9,
                                       .shard = {1, 3}});
      EXPECT_EQ(consumed(loader, 4), expected) << workers << " workers, prefetch " << prefetch;
      EXPECT_EQ(loader.steps_per_epoch(), 9);
      EXPECT_EQ(loader.samples_per_epoch(), 35);
    }
  }
}

TEST(DataLoader, ReusesItsWorkersOverEpochs) {
  DataLoader loader(numbers(20), {.batch_size = 3, .workers = 2, .shuffle = true});
  const Indices first = consumed(loader, 0);
  EXPECT_NE(first, consumed(loader, 1));
  EXPECT_EQ(first, consumed(loader, 0));
}

TEST(DataLoader, TakesItsShardFromAJob) {
  DataLoader loader{numbers(7), FakeJob{{2, 3}}, {.batch_size = 2, .workers = 1}};
  EXPECT_THAT(consumed(loader, 0), ElementsAre(2, 5, 1));
}

TEST(DataLoader, TakesALocalClassByValue) {
  struct Squares : Dataset {
    [[nodiscard]] std::int64_t size() const override { return 3; }
    Sample get(std::int64_t index, SampleContext&) override { return {at::full({1}, index * index, at::kLong), {}}; }
  };
  DataLoader loader{Squares(), {.batch_size = 3}};
  auto epoch = loader.epoch(0);
  const Batch* batch = epoch.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->data.sum().item().toLong(), 5);
  EXPECT_FALSE(batch->target.defined());
}

struct LibtorchNumbers : torch::data::datasets::Dataset<LibtorchNumbers> {
  torch::data::Example<> get(std::size_t i) override {
    const auto index = static_cast<std::int64_t>(i);
    return {at::full({2}, index, at::kLong), at::full({}, -index, at::kLong)};
  }
  [[nodiscard]] torch::optional<std::size_t> size() const override { return 7; }
};

TEST(DataLoader, TakesADataSetOfLibtorch) {
  DataLoader loader{LibtorchNumbers(), FakeJob{{2, 3}}, {.batch_size = 2, .workers = 2}};
  DataLoader same{numbers(7), FakeJob{{2, 3}}, {.batch_size = 2, .workers = 2}};
  const Indices seen = consumed(loader, 0);
  EXPECT_EQ(seen, consumed(same, 0));
  EXPECT_FALSE(seen.empty());
}

TEST(DataLoader, PassesSamplesThroughALambdaTransform) {
  const auto shifted = transform(numbers(4), [](Sample sample) { return Sample{sample.data.add(100), sample.target}; });
  DataLoader loader{transform(shifted,
                              [](Sample sample, SampleContext& context) {
                                return Sample{sample.data.add(1000 * context.epoch), sample.target};
                              }),
                    {.batch_size = 4}};
  auto epoch = loader.epoch(2);
  EXPECT_EQ(epoch.next()->data[3][0].item().toLong(), 2103);
}

TEST(DataLoader, DropLastLeavesOutABatchThatIsNotFull) {
  DataLoader loader(numbers(10), {.batch_size = 4, .workers = 1, .drop_last = true});
  EXPECT_EQ(consumed(loader, 0).size(), 8U);
  EXPECT_EQ(loader.steps_per_epoch(), 2);
}

TEST(DataLoader, KeepsEverySampleOnceForEvaluation) {
  std::map<std::int64_t, int> seen;
  for (std::int64_t shard = 0; shard < 3; ++shard) {
    DataLoader loader(numbers(7),
                      {.batch_size = 2, .shuffle = true, .shard = {shard, 3}, .remainder = Remainder::kKeep});
    const Indices indices = consumed(loader, 1);
    EXPECT_EQ(std::ssize(indices), loader.samples_per_epoch());
    for (const std::int64_t index : indices) ++seen[index];
  }
  EXPECT_EQ(seen.size(), 7U);
  for (const auto& [index, times] : seen) EXPECT_EQ(times, 1) << index;
}

TEST(DataLoader, StartsWhereAnEarlierRunStopped) {
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(numbers(23), {.batch_size = 4, .workers = workers, .shuffle = true, .seed = 3});
    const Indices whole = consumed(loader, 5);
    EXPECT_EQ(consumed(loader, 5, 2), Indices(whole.begin() + 8, whole.end()));
    EXPECT_EQ(consumed(loader, 5, loader.steps_per_epoch()), Indices{});
    EXPECT_THROW((void)loader.epoch(5, loader.steps_per_epoch() + 1), UsageError);
    EXPECT_THROW((void)loader.epoch(5, -1), UsageError);
    EXPECT_THROW((void)loader.epoch(-1), UsageError);
  }
}

std::map<double, double> random_of(std::int64_t workers, std::int64_t batch_size, ShardSpec shard, std::int64_t epoch) {
  std::map<double, double> values;
  DataLoader loader(RandomRows(),
                    {.batch_size = batch_size, .workers = workers, .shuffle = true, .seed = 1, .shard = shard});
  for (auto& batch : loader.epoch(epoch)) {
    const auto* rows = batch.data.data_ptr<double>();
    for (std::int64_t i = 0; i < batch.size; ++i) values[rows[2 * i]] = rows[2 * i + 1];
  }
  return values;
}

TEST(DataLoader, SampleRandomnessDependsOnSeedEpochAndIndexAlone) {
  const auto expected = random_of(0, 7, {}, 2);
  ASSERT_EQ(expected.size(), 50U);
  EXPECT_EQ(random_of(1, 3, {}, 2), expected);
  EXPECT_EQ(random_of(5, 16, {}, 2), expected);
  auto halves = random_of(2, 4, {0, 2}, 2);
  halves.merge(random_of(0, 5, {1, 2}, 2));
  EXPECT_EQ(halves, expected);
  EXPECT_NE(random_of(0, 7, {}, 3), expected);
}

TEST(DataLoader, GivesTheSameBytesOnBothPaths) {
  RandomRows rows;
  SampleContext context(1, 2, 30);
  const Sample sample = rows.get(30, context);
  EXPECT_EQ(sample.data.data_ptr<double>()[1], random_of(2, 8, {}, 2).at(30));
}

TEST(DataLoader, UsesACollateFunction) {
  const auto ragged = make_dataset(5, [](std::int64_t i) { return Sample{at::arange(i + 1), {}}; });
  DataLoader loader(ragged, {.batch_size = 5, .workers = 1, .collate = [](std::vector<Sample> samples) {
                               Batch batch;
                               batch.data = at::full({1}, static_cast<double>(samples.size()));
                               batch.extra = std::move(samples);
                               return batch;
                             }});
  auto epoch = loader.epoch(0);
  const Batch* batch = epoch.next();
  EXPECT_EQ(batch->size, 5);
  EXPECT_EQ(std::any_cast<const std::vector<Sample>&>(batch->extra)[4].data.numel(), 5);
}

TEST(DataLoader, GivesNoBatchOfAnEmptySet) {
  DataLoader loader(numbers(0), {.batch_size = 4, .workers = 2, .shuffle = true});
  EXPECT_EQ(consumed(loader, 0), Indices{});
  EXPECT_EQ(loader.steps_per_epoch(), 0);
}

TEST(DataLoader, TellsTheTraceSinkWhileTheLoopWaits) {
  struct Counter final : trace::Sink {
    void begin(const trace::Event& event) noexcept override { begun += event.name == "DataLoader::next" ? 1 : 0; }
    void end(const trace::Event& event) noexcept override { ended += event.name == "DataLoader::next" ? 1 : 0; }
    int begun = 0;
    int ended = 0;
  } counter;
  DataLoader loader(numbers(6), {.batch_size = 2, .workers = 1});
  ASSERT_TRUE(trace::add_sink(counter));
  (void)consumed(loader, 0);
  trace::remove_sink(counter);
  EXPECT_EQ(counter.begun, 3);
  EXPECT_EQ(counter.ended, 3);
}

// The loader with faults and early ends: errors reach their batch, nothing hangs, no thread is left behind.

Sample number(std::int64_t i) { return {at::full({1}, i, at::kLong), {}}; }

std::ptrdiff_t threads_of_this_process() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

TEST(DataLoader, ThrowsAWorkersErrorAtTheBatchItBelongsTo) {
  const auto faulty = make_dataset(20, [](std::int64_t i) {
    if (i == 9) throw DataError("truncated image nine.png");
    return number(i);
  });
  for (const std::int64_t workers : {0, 1, 4}) {
    DataLoader loader(faulty, {.batch_size = 4, .workers = workers});
    auto epoch = loader.epoch(0);
    EXPECT_EQ(epoch.next()->step, 0) << workers;
    EXPECT_EQ(epoch.next()->step, 1) << workers;
    EXPECT_THROW((void)epoch.next(), DataError) << workers;
    EXPECT_EQ(epoch.next()->step, 3) << "the loop may go on after the error";
    EXPECT_EQ(epoch.next()->step, 4) << workers;
    EXPECT_EQ(epoch.next(), nullptr) << workers;
  }
}

TEST(DataLoader, NamesTheTruncatedFileOfAFolder) {
  const test::TempDir folder;
  const fs::path golden = fs::path(LOCKSTEP_TEST_SOURCE_DIR) / "tests/data/golden/rgb.png";
  for (const char* name : {"a.png", "b.png", "c.png"}) fs::copy_file(golden, folder.path() / name);
  fs::resize_file(folder.path() / "b.png", 300);
  DataLoader loader(ImageFolder(folder.path(), {}), {.batch_size = 1, .workers = 2});
  int good = 0;
  try {
    for (const auto& batch : loader.epoch(0)) good += static_cast<int>(batch.size);
    FAIL() << "no error";
  } catch (const DataError& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr("b.png"), HasSubstr("truncated PNG")));
  }
  EXPECT_EQ(good, 1);
}

TEST(DataLoader, KeepsTheTypeOfForeignErrors) {
  const auto faulty = make_dataset(1, [](std::int64_t) -> Sample { throw std::out_of_range("mine"); });
  DataLoader loader(faulty, {.workers = 1});
  EXPECT_THROW((void)loader.epoch(0).next(), std::out_of_range);
}

TEST(DataLoader, LeavesALoopEarlyAndStartsAgain) {
  DataLoader loader(make_dataset(1000, number), {.batch_size = 2, .workers = 3});
  for (int round = 0; round < 50; ++round) {
    std::int64_t steps = 0;
    for (const auto& batch : loader.epoch(round)) {
      EXPECT_EQ(batch.step, steps);
      EXPECT_EQ(batch.indices.front(), 2 * steps);
      if (++steps == round % 5 + 1) break;
    }
  }
}

TEST(DataLoader, AnOlderEpochEndsWhenAnotherStarts) {
  DataLoader loader(make_dataset(10, number), {.batch_size = 2, .workers = 1});
  auto old = loader.epoch(0);
  EXPECT_EQ(old.next()->step, 0);
  auto fresh = loader.epoch(1);
  EXPECT_THROW((void)old.next(), UsageError);
  { const auto gone = std::move(old); }
  EXPECT_EQ(fresh.next()->step, 0) << "the end of the old one does not end the new one";
}

TEST(DataLoader, EndsItsThreadsWhileBatchesWait) {
  const std::ptrdiff_t before = threads_of_this_process();
  {
    DataLoader loader(make_dataset(1000, number), {.batch_size = 2, .workers = 4, .prefetch_factor = 3});
    auto epoch = loader.epoch(0);
    EXPECT_NE(epoch.next(), nullptr);
    EXPECT_EQ(threads_of_this_process(), before + 4);
  }
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(DataLoader, EndsAfterTheSampleThatIsBeingLoaded) {
  std::latch entered(1);
  std::latch leave(1);
  std::atomic<int> loaded{0};
  const auto slow = make_dataset(100, [&](std::int64_t i) {
    ++loaded;
    entered.count_down(i == 0 ? 1 : 0);
    leave.wait();
    return number(i);
  });
  {
    std::optional<DataLoader> loader;
    loader.emplace(slow, DataLoaderOptions{.batch_size = 50, .workers = 1});
    {
      auto epoch = loader->epoch(0);
      entered.wait();
    }
    leave.count_down();
  }
  EXPECT_EQ(loaded.load(), 1) << "the rest of a cancelled batch is not loaded";
}

TEST(DataLoader, NeverRunsFurtherAheadThanItsPrefetch) {
  std::atomic<std::int64_t> highest{0};
  const auto watched = make_dataset(200, [&](std::int64_t i) {
    std::int64_t seen = highest.load();
    while (i > seen && !highest.compare_exchange_weak(seen, i)) {
    }
    return number(i);
  });
  DataLoader loader(watched, {.batch_size = 1, .workers = 2, .prefetch_factor = 3});
  for (const auto& batch : loader.epoch(0)) EXPECT_LE(highest.load(), batch.step + 6);
}

TEST(DataLoader, TellsHowSamplesDoNotStack) {
  const auto ragged = make_dataset(3, [](std::int64_t i) { return Sample{at::full({i + 1}, 0.0), {}}; });
  DataLoader loader(ragged, {.batch_size = 3});
  try {
    (void)loader.epoch(0).next();
    FAIL() << "no error";
  } catch (const DataError& fault) {
    EXPECT_THAT(fault.what(), AllOf(HasSubstr("Float [1]"), HasSubstr("Float [2]"), HasSubstr("collate")));
  }
}

TEST(DataLoader, RefusesOptionsOutOfRange) {
  const auto set = make_dataset(3, number);
  EXPECT_THROW(DataLoader(set, {.batch_size = 0}), UsageError);
  EXPECT_THROW(DataLoader(set, {.workers = -1}), UsageError);
  EXPECT_THROW(DataLoader(set, {.prefetch_factor = 0}), UsageError);
  EXPECT_THROW(DataLoader(set, {.shard = {3, 3}}), UsageError);
  EXPECT_THROW(DataLoader(std::shared_ptr<Dataset>()), UsageError);
  EXPECT_THROW((void)make_dataset(-1, number), UsageError);
}

}  // namespace loader_test

namespace loader_resume_test {

using ::testing::HasSubstr;
using Seen = std::map<std::int64_t, int>;

// A loop that is killed at any batch and resumes with a different number of workers and shards: which samples it sees,
// and how often.

constexpr std::int64_t kSize = 53;
constexpr std::int64_t kEpoch = 3;

std::shared_ptr<Dataset> numbers() {
  return make_dataset(kSize, [](std::int64_t i) { return Sample{at::full({1}, i, at::kLong), {}, {}}; });
}

DataLoaderOptions options(std::int64_t shards, std::int64_t shard, std::int64_t workers = 0) {
  return {.batch_size = 4, .workers = workers, .shuffle = true, .seed = 8, .shard = {shard, shards}, .elastic = true};
}

/// Every shard takes at most `steps` batches, starting at `from`; `seen` counts their samples.
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

DataLoaderOptions full_batches(std::int64_t shards, std::int64_t shard) {
  DataLoaderOptions full = options(shards, shard);
  full.drop_last = true;
  return full;
}

LoaderState state_after(std::int64_t batches, std::int64_t shards) {
  DataLoader loader(numbers(), full_batches(shards, 0));
  auto pass = loader.epoch(kEpoch);
  for (std::int64_t i = 0; i < batches; ++i) EXPECT_NE(pass.next(), nullptr);
  return loader.state();
}

TEST(LoaderState, GivesOnlyFullBatchesWithDropLastWhenTheWorldHasChanged) {
  for (const std::int64_t before : {1, 2, 3}) {
    for (const std::int64_t after : {1, 2, 3, 5}) {
      if (before == after) continue;
      for (std::int64_t kill = 1; kill * 4 * before <= 48; ++kill) {
        const LoaderState state = state_after(kill, before);
        Seen seen;
        for (std::int64_t shard = 0; shard < after; ++shard) {
          DataLoader loader(numbers(), full_batches(after, shard));
          auto pass = loader.resume(state);
          while (const Batch* batch = pass.next()) {
            ASSERT_EQ(batch->indices.size(), 4U) << before << " -> " << after << " at " << kill;
            for (const std::int64_t index : batch->indices) ASSERT_EQ(++seen[index], 1) << index;
          }
        }
        const std::int64_t in_step = 4 * after;
        const std::int64_t rest = kSize - kill * 4 * before;
        EXPECT_EQ(std::ssize(seen), rest - rest % in_step) << before << " -> " << after << " at " << kill;
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
  EXPECT_THAT(refusal(state, other_seed), HasSubstr("seed 8 and would continue with 9"));
  DataLoaderOptions narrow = options(1, 0);
  narrow.elastic = false;
  EXPECT_THAT(refusal(state, narrow), HasSubstr("2 shards x batch_size 4 and would continue with 1 x 4"));
  LoaderState larger = state;
  larger.size = 54;
  EXPECT_THAT(refusal(larger, options(2, 0)), HasSubstr("a set of size 54"));
}

}  // namespace loader_resume_test
}  // namespace lockstep
