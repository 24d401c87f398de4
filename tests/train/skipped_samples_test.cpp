// SPDX-License-Identifier: Apache-2.0
// data.skip_samples: other samples replace the skipped ones. A run that skips samples has the same bits even if it was
// interrupted or ran on a different number of ranks.
#include "train/plan/skipped_samples.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "lockstep/train/step_watch.h"
#include "lockstep/view/digest_chain.h"
#include "support/alone.h"
#include "support/fault_of.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"
#include "train/setup/skip_file.h"

namespace lockstep {
namespace skipped_samples_test {

using test::NoisyRun;
using test::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using train::OrderShape;
using train::SkippedSamples;
using train::SkippingSampler;

constexpr OrderShape kShape{.seed = 3, .size = 67, .samples_of_step = 12};
using Order = std::vector<std::int64_t>;

Order order_without(const SkippedSamples& skipped, std::int64_t epoch) {
  return SkippingSampler(kShape, 4, skipped).indices(epoch);
}

TEST(SkippedSamples, LeaveTheOrderAsItIsElsewhere) {
  const Order whole = order_without({}, 1);
  ASSERT_EQ(whole.size(), 68U) << "padded for 4 replicas";
  EXPECT_EQ(whole.back(), whole.front());
  const Order random = RandomSampler(67, {.seed = 3}).indices(1);
  EXPECT_EQ(Order(whole.begin(), whole.end() - 1), random);
  SkippedSamples skipped;
  skipped.add(whole[20], {.epoch = 0, .batch = 5});
  const Order order = order_without(skipped, 1);
  EXPECT_THAT(order, Not(Contains(whole[20])));
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i] == whole[i], i != 20) << i;
}

TEST(SkippedSamples, AreLeftOutFromTheirBatchOn) {
  const Order whole = order_without({}, 2);
  SkippedSamples skipped;
  skipped.add(whole[23], {.epoch = 2, .batch = 2});  // the position before that batch
  skipped.add(whole[24], {.epoch = 2, .batch = 2});
  EXPECT_EQ(order_without(skipped, 1), order_without({}, 1));
  const Order order = order_without(skipped, 2);
  EXPECT_EQ(order[23], whole[23]);
  EXPECT_NE(order[24], whole[24]);
  EXPECT_THAT(order_without(skipped, 3), AllOf(Not(Contains(whole[23])), Not(Contains(whole[24]))));
}

TEST(SkippedSamples, ThatPadAnEpochAreLeftOutThere) {
  const Order whole = order_without({}, 0);
  SkippedSamples skipped;
  skipped.add(whole[0], {.epoch = 0, .batch = 3});
  const Order order = order_without(skipped, 0);
  EXPECT_EQ(order.front(), whole.front());
  EXPECT_NE(order.back(), whole.back());
}

TEST(SkippedSamples, LaterOnesChangeNothingBefore) {
  SkippedSamples some;
  for (int index = 0; index < 30; ++index) some.add(index, {});
  SkippedSamples more = some;
  for (int index = 30; index < 60; ++index) more.add(index, {.epoch = 0, .batch = 3});
  const Order before = order_without(some, 0);
  const Order after = order_without(more, 0);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 36, after.begin()));
  for (std::size_t i = 36; i < after.size(); ++i) EXPECT_GE(after[i], 60);
}

TEST(SkippedSamples, AreReadFromSettingsAsTheyWereWritten) {
  SkippedSamples skipped;
  skipped.add(5, {.epoch = 1, .batch = 2});
  skipped.add(7, {.epoch = 0, .batch = 9});
  skipped.add(7, {.epoch = 3, .batch = 0});
  skipped.add(2, {.epoch = 1, .batch = 2});
  TrainConfig config;
  config.data.skipped_samples = skipped.to_maps();
  const auto read = SkippedSamples::in_settings(ConfigTree::from_text(config.rows().to_yaml(), "test"));
  EXPECT_EQ(read.to_maps(), skipped.to_maps());
  ASSERT_EQ(read.size(), 3);
  EXPECT_EQ(std::get<std::string>(read.to_maps().at(0).at("batch")), "9");
  EXPECT_THAT(SkippedSamples::in_settings(ConfigTree::from_text("seed: 1", "test")).to_maps(), IsEmpty());
}

TEST(SkippedSamples, OfAnotherFormAreRefused) {
  for (const char* text : {"[{epoch: 1}]", "[{epoch: 0, batch: x, samples: [1]}]", "[{epoch: 0, batch: 1, samples: 5}]",
                           "[{epoch: 0, batch: -1, samples: [1]}]"}) {
    const ConfigTree tree = ConfigTree::from_text(fmt::format("data: {{skipped_samples: {}}}", text), "test");
    EXPECT_THAT(test::fault_of<UsageError>([&] { (void)SkippedSamples::in_settings(tree); }),
                HasSubstr("data.skipped_samples"))
        << text;
  }
}

std::string file_in(const TempDir& folder, const std::string& text) {
  write_file_atomically(FileSystem::system(), folder / "skip", text);
  return (folder / "skip").string();
}

TEST(SkipFile, NamesSamples) {
  const TempDir folder;
  const auto set = test::NoisyTask().make_dataset("");
  const std::string file = file_in(folder, "# the worst\nsample 8\r\n\nsample 61\n");
  EXPECT_THAT(train::read_skip_file(file, *set), ElementsAre(8, 61));
}

TEST(SkipFile, OfAnUnknownSampleNamesTheLineAndTheNearest) {
  const TempDir folder;
  const auto set = test::NoisyTask().make_dataset("");
  const std::string file = file_in(folder, "sample 8\nsampel 61\nsample 99\n");
  EXPECT_THAT(test::fault_of<DataError>([&] { (void)train::read_skip_file(file, *set); }),
              AllOf(HasSubstr("skip:2: data.train has no sample 'sampel 61'"), HasSubstr("did you mean 'sample 61'?")));
}

/// Records the indices that a run reads, by step.
class SampleWatch final : public StepWatch {
 public:
  bool wants(std::int64_t step) override { return (now_ = step) > 0; }
  void on_batch(const WatchedBatch& watched) override {
    auto& seen = steps[now_];
    seen.insert(seen.end(), watched.batch.indices.begin(), watched.batch.indices.end());
  }
  std::map<std::int64_t, Order> steps;

 private:
  std::int64_t now_ = 0;
};

constexpr int kLeftOut = 16;  ///< samples

/// Resumes at step 4 of `from`, and skips the very first sample.
NoisyRun second_half(const TempDir& folder, const std::filesystem::path& from) {
  std::string names;
  for (int index = 0; index < kLeftOut; ++index) names += fmt::format("sample {}\n", index);
  NoisyRun run;
  run.config.data.skip_samples = file_in(folder, names);
  run.resume = (from / "checkpoints/step-00000004").string();
  return run;
}

std::string chain_of(const std::filesystem::path& run) { return FileSystem::system().read(run / view::kDigestFile); }

TEST(SkippingRuns, ReadNoSampleThatIsLeftOut) {
  const TempDir folder;
  test::train(testing::alone(), folder / "whole");
  NoisyRun run = second_half(folder, folder / "whole");
  const auto watch = std::make_shared<SampleWatch>();
  Trainer(testing::alone(), run.task, run.config,
          {.recipe = "noisy", .run_dir = folder / "half", .resume = run.resume, .watch = watch})
      .fit();
  ASSERT_EQ(watch->steps.size(), 6U);
  for (const auto& [step, samples] : watch->steps) {
    EXPECT_THAT(samples, Each(::testing::Ge(kLeftOut))) << step;
    EXPECT_EQ(samples.size(), step % 3 == 0 ? 20U : 24U) << step;
  }
  EXPECT_EQ(run.config.data.skip_samples, "") << "the settings hold the samples";
  EXPECT_NE(chain_of(folder / "half"), chain_of(folder / "whole"));
}

class SkippingWorlds : public ::testing::TestWithParam<int> {};

TEST_P(SkippingWorlds, HaveOneChain) {
  const TempDir folder;
  const char* told = std::getenv("LOCKSTEP_TEST_SHARED");
  const std::filesystem::path shared = told != nullptr ? told : folder.path().string();
  if (told == nullptr) {
    test::train(testing::alone(), folder / "whole");
    test::train(testing::alone(), folder / "alone", second_half(folder, folder / "whole"));
    (void)second_half(folder, shared);
  }
  testing::run_ranks(testing::current_test(),
                     [&](Job& job) {
                       NoisyRun run;
                       run.resume = (shared / "whole/checkpoints/step-00000004").string();
                       if (job.is_main()) run.config.data.skip_samples = (shared / "skip").string();
                       test::train(job, shared / "ranks", run);
                     },
                     {.world = GetParam(), .env = {{"LOCKSTEP_TEST_SHARED", shared.string()}}});
  if (told == nullptr) {
    EXPECT_EQ(chain_of(folder / "ranks"), chain_of(folder / "alone"));
  }
}
INSTANTIATE_TEST_SUITE_P(OfSomeRanks, SkippingWorlds, ::testing::Values(2, 4));

TEST(SkippingRuns, ThatWereKilledGoOnWithTheSameSamples) {
  const TempDir folder;
  test::train(testing::alone(), folder / "whole");
  test::train(testing::alone(), folder / "half", second_half(folder, folder / "whole"));
  // There was no save after the resume: only the run folder records the skipped samples.
  std::filesystem::copy(folder / "whole", folder / "killed", std::filesystem::copy_options::recursive);
  for (const int step : {5, 6, 7, 8, 9, 10}) {
    std::filesystem::remove_all(folder / "killed/checkpoints" / fmt::format("step-{:08}", step));
  }
  std::filesystem::copy_file(folder / "half/config.yml", folder / "killed/config.yml",
                             std::filesystem::copy_options::overwrite_existing);
  NoisyRun run;
  run.resume = "auto";
  test::train(testing::alone(), folder / "killed", run);
  EXPECT_EQ(test::digest_of(folder / "killed"), test::digest_of(folder / "half"));
}

TEST(SkippingRuns, AreReplayedFromACheckpointBeforeTheSamplesWereLeftOut) {
  const TempDir folder;
  test::train(testing::alone(), folder / "whole");
  test::train(testing::alone(), folder / "half", second_half(folder, folder / "whole"));
  NoisyRun replay;
  replay.config.data.skipped_samples =
      SkippedSamples::in_settings(ConfigTree::from_file(folder / "half/config.yml")).to_maps();
  replay.resume = (folder / "whole/checkpoints/step-00000002").string();
  test::train(testing::alone(), folder / "replay", replay);
  EXPECT_EQ(test::digest_of(folder / "replay"), test::digest_of(folder / "half"));
}

TEST(SkippingRuns, GoOnElsewhereWithWhatTheCheckpointLeavesOut) {
  const TempDir folder;
  test::train(testing::alone(), folder / "whole");
  test::train(testing::alone(), folder / "half", second_half(folder, folder / "whole"));
  std::filesystem::create_directories(folder / "moved");
  std::filesystem::copy(folder / "half/checkpoints/step-00000007", folder / "moved/step-00000007",
                        std::filesystem::copy_options::recursive);
  NoisyRun run;
  run.resume = (folder / "moved/step-00000007").string();
  test::train(testing::alone(), folder / "other", run);
  EXPECT_EQ(test::digest_of(folder / "other"), test::digest_of(folder / "half"));
}

/// A checkpoint's settings may have 100,000 values.
TEST(SkippingRuns, OfMoreSamplesThanSettingsCanHoldBeginNothing) {
  const TempDir folder;
  constexpr int kMost = 100'000;
  std::string names;
  for (int index = 0; index < kMost; ++index) names += fmt::format("sample {}\n", index);
  NoisyRun run{.task = test::NoisyTask(kMost + 100)};
  run.config.data.skip_samples = file_in(folder, names);
  EXPECT_THAT(test::fault_of<UsageError>([&] { test::train(testing::alone(), folder / "run", run); }),
              AllOf(HasSubstr("with 100000 skipped samples, could not be read back: "), HasSubstr("100000 values"),
                    HasSubstr("skip fewer samples")));
  EXPECT_FALSE(FileSystem::system().exists(folder / "run/config.yml"));
  EXPECT_FALSE(FileSystem::system().exists(folder / "run/checkpoints"));
}

TEST(SkippingRuns, NeedSamplesThatAreLeft) {
  const TempDir folder;
  NoisyRun run;
  SkippedSamples skipped;
  for (int index = 0; index < 64; ++index) skipped.add(index, {});
  run.config.data.skipped_samples = skipped.to_maps();
  EXPECT_THAT(test::fault_of<DataError>([&] { test::train(testing::alone(), folder / "run", run); }),
              HasSubstr("64 of 67 samples are skipped"));
}

}  // namespace skipped_samples_test
}  // namespace lockstep
