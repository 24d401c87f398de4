// SPDX-License-Identifier: Apache-2.0
// `batch_size: auto` with simulated memory: a task runs out of memory above some number of samples.
#include "train/setup/auto_batch.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <new>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/tensor/random.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"
#include "train/noisy_task.h"

namespace lockstep {
namespace auto_batch_test {

using ::lockstep::test::digest_of;
using ::lockstep::test::noisy_config;
using ::lockstep::test::NoisyTask;
using ::lockstep::test::TempDir;
using ::lockstep::testing::alone;
using ::testing::HasSubstr;
using ::testing::Not;
using train::BatchProbe;
using train::MeasureAnyDevice;
using train::TaskNet;

constexpr std::int64_t kNoLimit = 1'000'000;

/// A task with memory for `limit` samples in training. After need_more_from_forward(n), the memory holds only half as
/// many from the n-th forward pass of each network on.
class LimitedTask final : public Task {
 public:
  explicit LimitedTask(std::int64_t limit, std::int64_t size = 67) : noisy_(size), limit_(limit) {}

  at::Tensor forward(torch::nn::Module& model, const Batch& batch) override {
    if (model.is_training()) note(batch);
    return noisy_.forward(model, batch);
  }
  std::shared_ptr<torch::nn::Module> make_model() override {
    forwards_of_net_ = 0;
    return noisy_.make_model();
  }
  at::Tensor loss(const at::Tensor& output, const Batch& batch) override {
    if (breaks_) throw DataError("a sample is torn");
    return noisy_.loss(output, batch);
  }
  std::shared_ptr<Dataset> make_dataset(const std::string& folder) override { return noisy_.make_dataset(folder); }
  at::Tensor count(const at::Tensor& output, const Batch& batch) override { return noisy_.count(output, batch); }
  [[nodiscard]] std::vector<Metric> metrics(const at::Tensor& counts) const override { return noisy_.metrics(counts); }
  [[nodiscard]] std::string model_name() const override { return noisy_.model_name(); }

  void break_now() { breaks_ = true; }
  void need_more_from_forward(int number) { greedy_from_ = number; }
  [[nodiscard]] int forwards_of_net() const { return forwards_of_net_; }
  [[nodiscard]] std::int64_t largest() const { return largest_; }

 private:
  void note(const Batch& batch) {
    ++forwards_of_net_;
    largest_ = std::max(largest_, batch.data.size(0));
    const bool greedy = greedy_from_ > 0 && forwards_of_net_ >= greedy_from_;
    if (batch.data.size(0) > (greedy ? limit_ / 2 : limit_)) throw std::bad_alloc();
  }

  NoisyTask noisy_;
  std::int64_t limit_;
  bool breaks_ = false;
  int greedy_from_ = 0;
  int forwards_of_net_ = 0;
  std::int64_t largest_ = 0;
};

TrainConfig auto_config() {
  TrainConfig config = noisy_config();
  config.batch_size = AutoInt::automatic();
  return config;
}

/// The results of a run: its settings and its output.
struct Outcome {
  TrainConfig config;
  std::string shown;
};

Outcome train_run(const Job& job, LimitedTask task, TrainConfig config, const std::filesystem::path& run_dir,
                  const std::string& resume = "none") {
  ::testing::internal::CaptureStdout();
  Outcome run{std::move(config), ""};
  try {
    Trainer(job, task, run.config, {.recipe = "noisy", .run_dir = run_dir, .resume = resume}).fit();
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    throw;
  }
  run.shown = ::testing::internal::GetCapturedStdout();
  return run;
}

std::string read(const std::filesystem::path& path) { return FileSystem::system().read(path); }

train::Untried untried(const Job& job, LimitedTask& task, const TrainConfig& config) {
  return {.job = job,
          .task = task,
          .config = config,
          .dataset = task.make_dataset("made up"),
          .make_net = [&task, &config] {
            seed_all(static_cast<std::uint64_t>(config.seed));
            auto net = task.make_model();
            net->train();
            return std::make_shared<TaskNet>(task, std::move(net));
          }};
}

TrainConfig with_replicas(std::int64_t replicas) {
  TrainConfig config = noisy_config();
  config.replicas = replicas;
  config.threads = 1;
  return config;
}

TEST(AutoBatch, OnTheCpuItIsAUsageErrorThatSaysWhatToSet) {
  const TempDir folder;
  try {
    train_run(alone(), LimitedTask(3), auto_config(), folder / "run");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.message(), HasSubstr("measures GPU memory, but the device is the CPU"));
    EXPECT_THAT(error.hint(), HasSubstr("TrainConfig::batch_size = 64"));
  }
  EXPECT_FALSE(FileSystem::system().exists(folder / "run/config.yml"));
}

TEST(AutoBatch, TheRunHasTheBitsOfOneWithTheNumberItFound) {
  const TempDir folder;
  const MeasureAnyDevice measure;
  train_run(alone(), LimitedTask(3), auto_config(), folder / "auto");
  train_run(alone(), LimitedTask(kNoLimit), noisy_config(), folder / "number");
  EXPECT_EQ(digest_of(folder / "auto"), digest_of(folder / "number"));
  EXPECT_EQ(read(folder / "auto/config.yml"), read(folder / "number/config.yml"));
}

TEST(AutoBatch, TheNumberStandsInSettingsBannerAndCheckpoint) {
  const TempDir folder;
  const MeasureAnyDevice measure;
  TrainConfig config = auto_config();
  config.optimizer.lr_scaling = "batch";
  const Outcome run = train_run(alone(), LimitedTask(5), config, folder / "run");
  EXPECT_EQ(run.config.batch_size, 5);
  EXPECT_THAT(read(folder / "run/config.yml"), HasSubstr("\nbatch_size: 5\n"));
  EXPECT_EQ(load_checkpoint((folder / "run").string()).text("config.yml"), read(folder / "run/config.yml"));
  EXPECT_THAT(run.shown, HasSubstr("5 x 4 replicas x 2 accumulated = 40, found by batch_size: auto\n"));
  EXPECT_THAT(run.shown, HasSubstr("0.0015625, 0.01 scaled by batch"));  // 0.01 * 40 / 256
}

TEST(AutoBatch, ANumberIsSaidToBeFoundOnlyWhereItWas) {
  const TempDir folder;
  EXPECT_THAT(train_run(alone(), LimitedTask(kNoLimit), noisy_config(), folder / "run").shown, Not(HasSubstr("found")));
}

TEST(AutoBatch, ResumingTakesTheCheckpointsNumberWithoutATrial) {
  const TempDir folder;
  TrainConfig first = auto_config();
  {
    const MeasureAnyDevice measure;
    first.max_steps = 6;
    first.schedule.type = "none";
    train_run(alone(), LimitedTask(3), first, folder / "run");
  }
  TrainConfig rest = first;
  rest.batch_size = AutoInt::automatic();
  rest.max_steps = 10;
  // The remaining steps, on a device without a memory limit.
  const Outcome run = train_run(alone(), LimitedTask(kNoLimit), rest, folder / "run", "auto");
  EXPECT_EQ(run.config.batch_size, 3);
  EXPECT_THAT(run.shown, Not(HasSubstr("found by")));
  EXPECT_EQ(load_checkpoint((folder / "run").string()).step(), 10);
}

TEST(AutoBatch, ARunKilledBeforeItsFirstCheckpointBeginsAgainWithItsNumber) {
  const TempDir folder;
  {
    const MeasureAnyDevice measure;
    train_run(alone(), LimitedTask(3), auto_config(), folder / "run");
  }
  std::filesystem::remove_all(folder / "run/checkpoints");
  EXPECT_EQ(train_run(alone(), LimitedTask(kNoLimit), auto_config(), folder / "run", "auto").config.batch_size, 3);
}

TEST(AutoBatch, WhereNothingFitsItIsAResourceErrorAboutABatchOfOne) {
  const TempDir folder;
  const MeasureAnyDevice measure;
  try {
    train_run(alone(), LimitedTask(0), auto_config(), folder / "run");
    FAIL() << "no error";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.message(), HasSubstr("not even a batch of 1 fits in memory on cpu: std::bad_alloc"));
    EXPECT_THAT(error.hint(), HasSubstr("a smaller model"));
  }
}

TEST(AutoBatch, ItIsNoLargerThanAReplicasPartOfTheDataSet) {
  LimitedTask task(kNoLimit);
  const TrainConfig config = with_replicas(4);
  EXPECT_EQ(train::find_batch_size(untried(alone(), task, config)), 17);  // 67 samples on 4 replicas
  EXPECT_EQ(task.largest(), 17);
}

TEST(AutoBatch, WithoutASampleItIsOne) {
  LimitedTask task(kNoLimit, 0);
  EXPECT_EQ(train::find_batch_size(untried(alone(), task, with_replicas(1))), 1);
}

TEST(AutoBatch, TheRandomStateIsAsIfNothingHadBeenTried) {
  seed_all(5);
  const at::Tensor expected = at::rand({4});
  seed_all(5);
  LimitedTask task(12);
  const TrainConfig config = with_replicas(2);
  EXPECT_EQ(train::find_batch_size(untried(alone(), task, config)), 8);
  EXPECT_TRUE(at::rand({4}).equal(expected));
}

TEST(AutoBatch, WhatIsNotOutOfMemoryEndsTheSearch) {
  LimitedTask task(kNoLimit);
  task.break_now();
  const TrainConfig config = with_replicas(1);
  EXPECT_THROW((void)train::find_batch_size(untried(alone(), task, config)), DataError);
}

TEST(BatchProbe, ATrialIsTwoStepsOfEachReplica) {
  LimitedTask task(kNoLimit);
  for (const auto& [replicas, accumulated, forwards] :
       {std::tuple{1, 1, 2}, std::tuple{3, 1, 6}, std::tuple{1, 2, 4}, std::tuple{1, 7, 4}}) {
    TrainConfig config = with_replicas(replicas);
    config.accumulate_steps = accumulated;
    EXPECT_TRUE(BatchProbe(untried(alone(), task, config)).fits(4));
    EXPECT_EQ(task.forwards_of_net(), forwards) << replicas << " replicas, " << accumulated << " batches";
  }
}

TEST(BatchProbe, MemoryThatIsMissingInTheSecondStepCounts) {
  LimitedTask task(8);
  TrainConfig config = with_replicas(1);
  config.accumulate_steps = 1;
  EXPECT_TRUE(BatchProbe(untried(alone(), task, config)).fits(8));
  task.need_more_from_forward(2);
  BatchProbe probe(untried(alone(), task, config));
  EXPECT_FALSE(probe.fits(8));
  EXPECT_TRUE(probe.fits(4));
  EXPECT_EQ(probe.problem(), "std::bad_alloc");
}

TEST(BatchProbe, FewSamplesAreRepeatedForALargeBatch) {
  LimitedTask task(kNoLimit, 5);
  const TrainConfig config = with_replicas(1);
  EXPECT_TRUE(BatchProbe(untried(alone(), task, config)).fits(333));
  EXPECT_EQ(task.largest(), 333);
}

TEST(BatchProbe, BucketsAreACopyOfTheGradientsForEachUnfinishedSum) {
  EXPECT_EQ(train::gradient_copies(0, 1, 1), 0);
  EXPECT_EQ(train::gradient_copies(1, 4, 4), 1);
  EXPECT_EQ(train::gradient_copies(0, 1, 2), 1);
  EXPECT_EQ(train::gradient_copies(0, 1, 4), 2);  // the sum of 0 and 1, then 2 next to it
  EXPECT_EQ(train::gradient_copies(0, 1, 8), 3);
  EXPECT_EQ(train::gradient_copies(1, 2, 4), 1);
}

TEST(BatchProbe, ARecordedStepAndOneThatIsNotNeedRoomSideBySide) {
  TrainConfig config = with_replicas(1);
  config.accumulate_steps = 1;
  const c10::Device gpu(c10::kCUDA, 0);
  const c10::Device cpu(c10::kCPU);
  EXPECT_EQ(train::trial_size(config, {gpu, 1, /*recordable=*/true}, 24), 48);
  EXPECT_EQ(train::trial_size(config, {gpu, 1, /*recordable=*/false}, 24), 24);
  config.cuda_graph = "true";
  EXPECT_EQ(train::trial_size(config, {gpu, 1, /*recordable=*/false}, 24), 48);
  EXPECT_EQ(train::trial_size(config, {gpu, 2, /*recordable=*/true}, 24), 24);  // steps on this device are not recorded
  EXPECT_EQ(train::trial_size(config, {cpu, 1, /*recordable=*/true}, 24), 24);
}

TEST(BatchProbe, AShareOfTheParametersHoldsAtLeastItsPart) {
  const auto parameter = [](std::int64_t size) { return at::ones({size}); };
  const NamedTensors all = {{"a", parameter(10)}, {"b", parameter(30)}, {"c", parameter(60)}};
  EXPECT_EQ(train::share_of(all, 1).size(), 3U);
  EXPECT_EQ(train::share_of(all, 2).size(), 3U);   // 40 of 100 are less than half
  EXPECT_EQ(train::share_of(all, 3).size(), 2U);   // 40 of 100
  EXPECT_EQ(train::share_of(all, 10).size(), 1U);  // 10 of 100
}

RANKS_TEST(AutoBatch, RanksAgreeOnTheSmallestThatAnyOfThemHasRoomFor, 3) {
  LimitedTask task(job.rank() == 1 ? 3 : 9);
  const TrainConfig config = with_replicas(4);
  EXPECT_EQ(train::find_batch_size(untried(job, task, config)), 3);
}

RANKS_TEST(AutoBatch, ARankWithoutRoomForOneSampleEndsAll, 2) {
  LimitedTask task(job.rank() == 1 ? 0 : kNoLimit);
  const TrainConfig config = with_replicas(2);
  try {
    (void)train::find_batch_size(untried(job, task, config));
    ADD_FAILURE() << "no error";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.message(), HasSubstr(job.rank() == 1 ? "on cpu: std::bad_alloc" : "on another rank"));
  }
  job.barrier();  // the group still works
}

RANKS_TEST(AutoBatch, RanksTrainAndGoOnWithWhatTheyFound, 2) {
  const TempDir folder;
  TrainConfig first = auto_config();
  first.sync_batchnorm = true;
  TrainConfig again = first;
  first.max_steps = again.max_steps = 4;
  LimitedTask task(job.rank() == 0 ? 6 : 5);
  {
    const MeasureAnyDevice measure;
    Trainer(job, task, first, {.recipe = "noisy", .run_dir = folder / "run"}).fit();
  }
  EXPECT_EQ(first.batch_size, 5);
  Trainer(job, task, again, {.recipe = "noisy", .run_dir = folder / "run", .resume = "auto"}).fit();
  EXPECT_EQ(again.batch_size, 5);
}

}  // namespace auto_batch_test
}  // namespace lockstep
