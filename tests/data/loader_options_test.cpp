// SPDX-License-Identifier: Apache-2.0
// Loader inputs other than a map-style dataset in its own order.
#include <ATen/core/ivalue.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <latch>
#include <map>
#include <thread>

#include "data/epoch_stream.h"
#include "data/sources/files/ordered_work.h"
#include "lockstep/base/error.h"
#include "lockstep/data/augment/to_tensor.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/stream_dataset.h"
#include "support/sanitizer.h"
#include "support/scarce.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace loader_options_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Sample number(std::int64_t i) { return {at::full({1}, i, at::kLong), {}, {}}; }

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

std::vector<std::vector<std::int64_t>> batches_of(DataLoader& loader, std::int64_t epoch = 0) {
  std::vector<std::vector<std::int64_t>> all;
  for (const auto& batch : loader.epoch(epoch)) all.push_back(batch.indices);
  return all;
}

std::shared_ptr<IterableDataset> counting(std::int64_t count) {
  return make_iterable([count](std::int64_t epoch, ShardSpec shard) {
    return [count, epoch, at = shard.index, step = shard.count]() mutable -> std::optional<SampleMaker> {
      if (at >= count) return std::nullopt;
      const std::int64_t value = 100 * epoch + at;
      at += step;
      return [value](SampleContext&) { return number(value); };
    };
  });
}

std::vector<std::int64_t> values_of(DataLoader& loader, std::int64_t epoch, std::int64_t start = 0) {
  std::vector<std::int64_t> values;
  for (const auto& batch : loader.epoch(epoch, start)) {
    const auto* data = batch.data.data_ptr<std::int64_t>();
    values.insert(values.end(), data, data + batch.size);
  }
  return values;
}

TEST(DataLoader, ReadsAStreamInItsOrderWhateverTheWorkers) {
  for (const std::int64_t workers : {0, 1, 2, 5}) {
    DataLoader loader(counting(7), {.batch_size = 2, .workers = workers});
    EXPECT_THAT(values_of(loader, 1), ElementsAre(100, 101, 102, 103, 104, 105, 106)) << workers;
    EXPECT_THAT(values_of(loader, 0, 2), ElementsAre(4, 5, 6)) << workers;
    DataLoader full(counting(7), {.batch_size = 2, .workers = workers, .drop_last = true, .shard = {1, 2}});
    EXPECT_THAT(values_of(full, 0), ElementsAre(1, 3)) << workers;
  }
}

TEST(DataLoader, EndsAStreamWithTheErrorOfItsReader) {
  const auto broken = make_iterable([](std::int64_t, ShardSpec) {
    return [at = 0]() mutable -> std::optional<SampleMaker> {
      if (at == 3) throw IoError("the pipe broke");
      return [value = at++](SampleContext&) { return number(value); };
    };
  });
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(broken, {.batch_size = 3, .workers = workers});
    auto pass = loader.epoch(0);
    EXPECT_NE(pass.next(), nullptr) << workers;
    EXPECT_THROW((void)pass.next(), IoError) << workers;
  }
}

TEST(DataLoader, RefusesAStreamWithASampler) {
  EXPECT_THROW(DataLoader(counting(3), {.shuffle = true}), UsageError);
  EXPECT_THROW(DataLoader(std::shared_ptr<IterableDataset>()), UsageError);
}

TEST(DataLoader, DealsASamplersOrderOutToItsShards) {
  const auto backwards = std::make_shared<WeightedSampler>(std::vector<double>{0, 1, 0, 1},
                                                           RandomSamplerOptions{.replacement = true, .count = 5});
  const auto order = backwards->indices(2);
  for (const std::int64_t shard : {0, 1}) {
    DataLoader loader(make_dataset(4, number), {.batch_size = 3, .shard = {shard, 2}, .sampler = backwards});
    const auto at = [&](std::size_t i) { return order[(2 * i + static_cast<std::size_t>(shard)) % 5]; };
    EXPECT_THAT(batches_of(loader, 2), ElementsAre(ElementsAre(at(0), at(1), at(2))));
    EXPECT_EQ(loader.steps_per_epoch(), 1);
  }
}

TEST(DataLoader, DealsTheBatchesOfABatchSamplerOutToItsShards) {
  const auto lengths =
      std::make_shared<LengthBatches>(std::vector<std::int64_t>{1, 9, 1, 9, 1},
                                      LengthBatchesOptions{.batch_size = 2, .boundaries = {5}, .shuffle = false});
  DataLoader first(make_dataset(5, number), {.shard = {0, 2}, .batch_sampler = lengths});
  DataLoader second(make_dataset(5, number), {.workers = 1, .shard = {1, 2}, .batch_sampler = lengths});
  EXPECT_THAT(batches_of(first), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(batches_of(second), ElementsAre(ElementsAre(4), ElementsAre(0, 2))) << "padded from the start";
  EXPECT_EQ(first.steps_per_epoch(), 2);
}

TEST(DataLoader, RefusesOptionsThatExcludeEachOther) {
  const auto set = make_dataset(4, number);
  const auto sampler = std::make_shared<SequentialSampler>(4);
  const auto batches = std::make_shared<SequentialBatches>(sampler, 2);
  EXPECT_THROW(DataLoader(set, {.shuffle = true, .sampler = sampler}), UsageError);
  EXPECT_THROW(DataLoader(set, {.sampler = sampler, .batch_sampler = batches}), UsageError);
  EXPECT_THROW(DataLoader(set, {.drop_last = true, .batch_sampler = batches}), UsageError);
  EXPECT_THROW(DataLoader(set, {.timeout_s = -1}), UsageError);
  DataLoader beyond(make_dataset(3, number), {.sampler = sampler});
  EXPECT_THROW((void)batches_of(beyond), UsageError) << "index 3 of 3 samples";
}

TEST(DataLoader, TakesAnyClassWithSizeAndGet) {
  struct Squares {
    [[nodiscard]] std::size_t size() const { return 4; }
    [[nodiscard]] Sample get(std::int64_t i) const { return number(i * i); }
  };
  DataLoader loader(Squares{}, {.batch_size = 4});
  EXPECT_THAT(values_of(loader, 0), ElementsAre(0, 1, 4, 9));
}

// Gets the sample's tensors from the context, like a transform.
Sample placed(std::int64_t i, SampleContext& context) {
  Sample sample{context.empty_data({2}), context.empty_target({}), {}};
  sample.data.fill_(static_cast<double>(i));
  sample.target.fill_(-i);
  return sample;
}

TEST(DataLoader, WritesSamplesStraightIntoTheirBatch) {
  std::vector<void*> rows;
  const auto set = make_dataset(4, [&rows](std::int64_t i, SampleContext& context) {
    Sample sample = placed(i, context);
    rows.push_back(sample.data.data_ptr());
    return sample;
  });
  DataLoader loader(set, {.batch_size = 4});
  auto pass = loader.epoch(0);
  const Batch* batch = pass.next();
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(rows[i], batch->data[static_cast<std::int64_t>(i)].data_ptr());
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch->data[i][1].item().toLong(), i);
    EXPECT_EQ(batch->target[i].item().toLong(), -i);
  }
}

TEST(DataLoader, KeepsWhatDoesNotStackBesideTheBatch) {
  const auto set = make_dataset(3, [](std::int64_t i) {
    Sample sample = number(i);
    if (i != 1) sample.extra = std::string(static_cast<std::size_t>(i) + 1, 'x');
    return sample;
  });
  DataLoader loader(set, {.batch_size = 3});
  auto pass = loader.epoch(0);
  const auto& extras = std::any_cast<const std::vector<std::any>&>(pass.next()->extra);
  ASSERT_THAT(extras, SizeIs(3));
  EXPECT_EQ(std::any_cast<std::string>(extras[0]), "x");
  EXPECT_FALSE(extras[1].has_value());
  EXPECT_EQ(std::any_cast<std::string>(extras[2]), "xxx");
}

std::shared_ptr<Dataset> with_bad(std::set<std::int64_t> bad) {
  return make_dataset(9, [bad](std::int64_t i, SampleContext& context) {
    if (bad.contains(i)) throw DataError("cannot read image " + std::to_string(i) + ".png");
    return placed(i, context);
  });
}

TEST(DataLoader, LeavesBadSamplesOutAndListsEachOnce) {
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(with_bad({0, 4, 8}), {.batch_size = 3, .workers = workers, .bad_samples = BadSamples::kSkip});
    testing::internal::CaptureStderr();
    EXPECT_THAT(batches_of(loader), ElementsAre(ElementsAre(1, 2), ElementsAre(3, 5), ElementsAre(6, 7)));
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("bad sample skipped: sample 4: cannot read image 4.png"));
    auto pass = loader.epoch(1);
    const Batch* batch = pass.next();
    EXPECT_EQ(batch->size, 2);
    EXPECT_EQ(batch->data.size(0), 2);
    EXPECT_EQ(batch->data[1][0].item().toLong(), 2);
    while (pass.next() != nullptr) {
    }
    ASSERT_THAT(loader.bad_samples(), SizeIs(3)) << "one line each, however many epochs";
    EXPECT_EQ(loader.bad_samples()[1].index, 4);
  }
}

TEST(DataLoader, PutsOthersInThePlaceOfABatchOfBadSamplesOnly) {
  const std::set<std::int64_t> bad = {3, 4, 5};
  const auto is_good = [&](std::int64_t index) { return !bad.contains(index); };
  for (const std::int64_t batch_size : {1, 3}) {
    const auto batches_with = [&](std::int64_t workers) {
      DataLoader loader(with_bad(bad),
                        {.batch_size = batch_size, .workers = workers, .bad_samples = BadSamples::kSkip});
      std::vector<std::vector<std::int64_t>> batches = batches_of(loader);
      EXPECT_THAT(loader.bad_samples(), SizeIs(3));
      return batches;
    };
    const auto batches = batches_with(0);
    ASSERT_THAT(batches, SizeIs(9 / batch_size)) << "every shard keeps its number of steps";
    for (const auto& indices : batches) {
      EXPECT_EQ(std::ssize(indices), batch_size);
      EXPECT_TRUE(std::ranges::all_of(indices, is_good));
    }
    EXPECT_EQ(batches_with(2), batches) << "with any number of workers";
  }
}

TEST(DataLoader, HasNoBatchOfBadSamplesOnlyWhereNothingIsRepeated) {
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(
        with_bad({0, 4, 8}),
        {.batch_size = 1, .workers = workers, .remainder = Remainder::kKeep, .bad_samples = BadSamples::kSkip});
    EXPECT_THAT(batches_of(loader), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(5),
                                                ElementsAre(6), ElementsAre(7)));
  }
}

TEST(DataLoader, RefusesASetOfBadSamplesOnly) {
  DataLoader loader(with_bad({0, 1, 2, 3, 4, 5, 6, 7, 8}), {.batch_size = 3, .bad_samples = BadSamples::kSkip});
  EXPECT_THROW((void)loader.epoch(0).next(), DataError);
}

TEST(DataLoader, GivesEachReplicaNumbersOfItsOwnForItsBatches) {
  const auto drawn_by = [](int shard, std::int64_t workers) {
    const auto collate = [](const std::vector<Sample>&, const BatchContext& context) {
      return Batch{.data = at::full({1}, static_cast<std::int64_t>(context.random()() >> 1), at::kLong)};
    };
    DataLoader loader(make_dataset(8, number),
                      {.batch_size = 2, .workers = workers, .shard = {shard, 2}, .collate = collate});
    std::vector<std::int64_t> drawn;
    for (const Batch& batch : loader.epoch(1)) drawn.push_back(batch.data.item<std::int64_t>());
    return drawn;
  };
  const auto first = drawn_by(0, 0);
  const auto second = drawn_by(1, 0);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], second[0]);
  EXPECT_NE(first[1], second[1]);
  EXPECT_EQ(drawn_by(1, 2), second);
}

TEST(DataLoader, NamesTheSampleThatIsTooSlowAndLeavesItsThreadBehind) {
  struct Stuck : Dataset {
    explicit Stuck(std::shared_ptr<std::latch> open) : door(std::move(open)) {}
    [[nodiscard]] std::int64_t size() const override { return 4; }
    Sample get(std::int64_t i, SampleContext&) override {
      if (i == 2) door->wait();
      return number(i);
    }
    [[nodiscard]] std::string describe(std::int64_t i) const override { return "far/" + std::to_string(i) + ".png"; }
    std::shared_ptr<std::latch> door;
  };
  const auto door = std::make_shared<std::latch>(1);
  const auto before = threads();
  {
    DataLoader loader(Stuck(door), {.batch_size = 1, .workers = 1, .timeout_s = 0.05});
    auto pass = loader.epoch(0);
    EXPECT_NE(pass.next(), nullptr);
    EXPECT_NE(pass.next(), nullptr);
    try {
      (void)pass.next();
      FAIL() << "no error";
    } catch (const TimeoutError& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("batch 2 of epoch 0"), HasSubstr("worker 0 has been loading far/2.png")));
    }
  }
  door->count_down();
  while (threads() > before) std::this_thread::yield();  // the next tests count threads as well
}

TEST(DataLoader, LeavesTheThreadBehindThatReadsAStreamTooSlowly) {
  const auto door = std::make_shared<std::latch>(1);
  const auto slow = [door](std::int64_t, ShardSpec) {
    return [door, at = 0]() mutable -> std::optional<SampleMaker> {
      if (at == 1) door->wait();
      return [value = at++](SampleContext&) { return number(value); };
    };
  };
  const auto before = threads();
  std::shared_ptr<IterableDataset> set = make_iterable(slow);
  const std::weak_ptr<IterableDataset> in_use = set;
  {
    DataLoader loader(std::move(set), {.batch_size = 1, .workers = 2, .timeout_s = 0.3});
    auto pass = loader.epoch(0);
    EXPECT_NE(pass.next(), nullptr);
    EXPECT_THROW((void)pass.next(), TimeoutError);
  }
  EXPECT_FALSE(in_use.expired());
  door->count_down();  // the reader goes on without its loader: a sanitizer sees if it reads freed memory
  while (threads() > before) std::this_thread::yield();
  EXPECT_TRUE(in_use.expired());
}

TEST(DataLoader, SaysWhatToDoAboutTooFewSamples) {
  testing::internal::CaptureStderr();
  const DataLoader few(make_dataset(7, number), {.batch_size = 4, .shard = {0, 3}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("7 samples, fewer than one step of 3 replicas x batch_size 4 = 12"));
  testing::internal::CaptureStderr();
  const DataLoader other(make_dataset(7, number), {.batch_size = 4, .shard = {1, 3}});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("samples"))) << "once, on the first shard";
  EXPECT_THROW(DataLoader(make_dataset(2, number), {.shard = {0, 3}}), DataError);
  const DataLoader evaluation(make_dataset(2, number), {.shard = {2, 3}, .remainder = Remainder::kKeep});
  EXPECT_EQ(evaluation.steps_per_epoch(), 0);
}

TEST(DataLoader, EndsItsThreadsWithTheEpochWhereTheyAreNotPersistent) {
  const auto before = threads();
  DataLoader loader(make_dataset(20, number), {.batch_size = 2, .workers = 3, .persistent_workers = false});
  EXPECT_EQ(threads(), before);
  const auto first = batches_of(loader);
  EXPECT_EQ(threads(), before);
  {
    auto pass = loader.epoch(0);
    EXPECT_EQ(threads(), before + 3);
  }
  EXPECT_EQ(batches_of(loader), first);
}

TEST(LoaderThreads, ThatFindNoRoomAreOneErrorWithTheLimit) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  if (test::kThreadSanitizer) GTEST_SKIP() << "under the thread sanitizer a forked process starts no threads";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        ::_exit(guarded_main([&] {
          DataLoader loader(make_dataset(4000, number), {.batch_size = 1, .workers = 2000});
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "of address space is allowed .ulimit -v");
}

TEST(OrderedWork, WhoseThreadsFindNoRoomIsOneErrorWithTheLimit) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  if (test::kThreadSanitizer) GTEST_SKIP() << "under the thread sanitizer a forked process starts no threads";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        ::_exit(guarded_main([&] {
          data::OrderedWork<int> work(4000, 2000, [](std::int64_t) { return 0; });
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "of address space is allowed .ulimit -v");
}

// Streams from shards and commands: together, all loaders yield each sample once, with any number of workers.

/// Five shards of three images; image n has brightness n.
std::vector<std::string> write_shards(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (int shard = 0; shard < 5; ++shard) {
    files.push_back((folder / ("s" + std::to_string(shard) + ".tar")).string());
    TarWriter writer(files.back());
    for (int i = 0; i < 3; ++i) {
      const int n = 3 * shard + i;
      AnnotatedImage picture{.pixels = Image{{4, 2}, 1, std::vector<std::uint8_t>(8, static_cast<std::uint8_t>(n))}};
      picture.label = n;
      writer.add(std::move(picture));
    }
    writer.finish();
  }
  return files;
}

struct FirstPixel {
  Sample operator()(AnnotatedImage& picture) const {
    const Image& image = picture.pixels.decoded(ColorMode::kGray);
    return {at::scalar_tensor(image.pixels.at(0)), at::scalar_tensor(*picture.label), {}};
  }
};

std::vector<std::int64_t> labels(DataLoader& loader, std::int64_t epoch = 0) {
  std::vector<std::int64_t> all;
  for (const auto& batch : loader.epoch(epoch)) {
    for (std::int64_t i = 0; i < batch.size; ++i) {
      all.push_back(batch.target[i].item().toLong());
      EXPECT_EQ(batch.data[i].item().toLong(), all.back());
    }
  }
  return all;
}

TEST(StreamDataset, GivesEachSampleOnceOverItsLoaders) {
  const test::TempDir folder;
  const auto shards = write_shards(folder.path());
  for (const std::int64_t workers : {0, 1, 3}) {
    std::map<std::int64_t, int> seen;
    for (std::int64_t part : {0, 1}) {
      DataLoader loader(stream_dataset(shards, FirstPixel{}, {.shuffle = true, .seed = 3}),
                        {.batch_size = 2, .workers = workers, .shard = {part, 2}});
      for (const std::int64_t label : labels(loader, 4)) ++seen[label];
    }
    EXPECT_EQ(seen.size(), 15U) << workers;
    for (const auto& [label, times] : seen) EXPECT_EQ(times, 1) << label;
  }
}

TEST(StreamDataset, ShufflesShardsByEpochAndNotByWorkers) {
  const test::TempDir folder;
  const auto shards = write_shards(folder.path());
  DataLoader alone(stream_dataset(shards, FirstPixel{}, {.shuffle = true}), {.batch_size = 4});
  DataLoader many(stream_dataset(shards, FirstPixel{}, {.shuffle = true}), {.batch_size = 4, .workers = 4});
  const auto first = labels(alone, 1);
  EXPECT_EQ(labels(many, 1), first);
  EXPECT_NE(labels(many, 2), first);
}

TEST(StreamDataset, ReadsWhatACommandWrites) {
  const test::TempDir folder;
  const auto shards = write_shards(folder.path());
  const std::string command = "pipe:cat '" + shards[1] + "'";
  DataLoader loader(stream_dataset({command}, FirstPixel{}, {.tar = {.allow_commands = true}}),
                    {.batch_size = 2, .workers = 2});
  EXPECT_EQ(labels(loader), (std::vector<std::int64_t>{3, 4, 5}));
  DataLoader refused(stream_dataset({command}, FirstPixel{}), {.batch_size = 2, .workers = 1});
  EXPECT_THROW((void)labels(refused), UsageError);
}

TEST(StreamDataset, TellsOfACommandThatFails) {
  DataLoader loader(stream_dataset({"pipe:exit 7"}, FirstPixel{}, {.tar = {.allow_commands = true}}),
                    {.batch_size = 2, .workers = 1});
  try {
    (void)labels(loader);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("7"));
  }
}

TEST(StreamDataset, RefusesShardsWithOtherClassesByTheirNames) {
  const test::TempDir folder;
  std::vector<std::string> shards;
  const std::vector<std::vector<std::string>> classes = {{"cat", "dog"}, {}, {"cat", "dog"}, {"dog", "cat"}};
  for (const auto& names : classes) {
    shards.push_back((folder.path() / ("s" + std::to_string(shards.size()) + ".tar")).string());
    TarWriter writer(shards.back(), {.class_names = names});
    AnnotatedImage picture{.pixels = Image{{1, 1}, 1, {0}}};
    picture.label = 0;
    writer.add(std::move(picture));
    writer.finish();
  }
  DataLoader good(stream_dataset({shards[0], shards[1], shards[2]}, FirstPixel{}), {.batch_size = 1});
  EXPECT_EQ(labels(good).size(), 3U);
  DataLoader bad(stream_dataset(shards, FirstPixel{}), {.batch_size = 1});
  try {
    (void)labels(bad);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("s0.tar"), HasSubstr("s3.tar"), HasSubstr("cat, dog")));
  }
}

TEST(StreamDataset, RefusesMoreReplicasThanShards) {
  EXPECT_THROW((void)open_shards({"a.tar"}, {}, 0, {0, 2}), DataError);
}

}  // namespace loader_options_test
}  // namespace lockstep

namespace lockstep::data {
namespace loader_options_test {

/// A stream that fails at one step, and would continue if it were called again.
class FailingFeed final : public Feed {
 public:
  explicit FailingFeed(std::int64_t fails_at) : fails_at_(fails_at) {}
  std::optional<BatchTask> next() override {
    if (step_ == fails_at_) {
      ++step_;
      throw DataError("the stream broke");
    }
    return BatchTask{.epoch = 0, .step = step_++, .indices = {}, .makers = {}};
  }

 private:
  std::int64_t fails_at_;
  std::int64_t step_ = 0;
};

TEST(EpochStream, AnErrorOfTheFeedTakesThePlaceOfItsBatchAndNoOtherWorkerGetsIt) {
  EpochStream stream(std::make_unique<FailingFeed>(1), 0, 4);
  ASSERT_TRUE(stream.take_task().has_value());
  stream.hand_over(0, {});
  EXPECT_FALSE(stream.take_task().has_value()) << "the feed failed";
  EXPECT_FALSE(stream.take_task().has_value()) << "another worker does not wait";
  ASSERT_EQ(stream.wait(Seconds(0)), EpochStream::Wait::kReady);
  EXPECT_EQ(stream.take().error, nullptr);
  ASSERT_EQ(stream.wait(Seconds(0)), EpochStream::Wait::kReady);
  EXPECT_THROW(std::rethrow_exception(stream.take().error), DataError);
  EXPECT_EQ(stream.wait(Seconds(0)), EpochStream::Wait::kEnded);
}

}  // namespace loader_options_test
}  // namespace lockstep::data
