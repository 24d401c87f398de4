// SPDX-License-Identifier: Apache-2.0
// What a loop over the loader sees: order, content, shards and resumption, with any number of workers.
#include "lockstep/data/loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <torch/data/datasets/base.h>

#include <map>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "lockstep/base/error.h"
#include "lockstep/base/trace.h"
#include "lockstep/data/sampler.h"

namespace lockstep {
namespace loader_test {

using ::testing::Each;
using ::testing::ElementsAre;

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

}  // namespace loader_test
}  // namespace lockstep
