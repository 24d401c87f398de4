// SPDX-License-Identifier: Apache-2.0
// The decisions made before a run, and their record.
#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/train/prepare.h"
#include "support/fault_of.h"
#include "train/plan/plan.h"
#include "train/plan/run_state.h"
#include "train/settings/precision.h"
#include "train/settings/schedule_choice.h"

namespace lockstep::train {
namespace plan_test {

using test::fault_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Plan, CountsOptimizerStepsOverAccumulatedBatches) {
  TrainConfig config;
  config.epochs = 3;
  config.accumulate_steps = 4;
  const Plan plan = make_plan(config, 10, 2);
  EXPECT_EQ(plan.steps_per_epoch, 3);  // 4 + 4 + 2 batches
  EXPECT_EQ(plan.total_steps, 9);
  EXPECT_EQ(plan.total_batch, 64 * 4 * 2);
}

TEST(Plan, HasTheFullBatchesOfAReplica) {
  EXPECT_EQ(full_batches(301, 2, 8), 18);
  EXPECT_EQ(full_batches(301, 4, 4), 19) << "each replica has a sample more than its part";
  EXPECT_EQ(full_batches(7, 1, 8), 0);
}

TEST(Plan, MaxStepsEndsItEarlier) {
  TrainConfig config;
  config.epochs = 3;
  config.max_steps = 7;
  EXPECT_EQ(make_plan(config, 10, 1).total_steps, 7);
}

TEST(Plan, TheLearningRateIsScaledAsAsked) {
  TrainConfig config;
  config.optimizer.lr = 0.1;
  EXPECT_DOUBLE_EQ(make_plan(config, 10, 4).lr, 0.1);
  config.optimizer.lr_scaling = "replicas";
  EXPECT_DOUBLE_EQ(make_plan(config, 10, 4).lr, 0.4);
  EXPECT_DOUBLE_EQ(make_plan(config, 10, 4, 2).lr, 0.2) << "a run that is divided anew keeps its learning rate";
  config.optimizer.lr_scaling = "batch";
  config.batch_size = 128;
  EXPECT_DOUBLE_EQ(make_plan(config, 10, 4).lr, 0.1 * 512 / 256);
}

/// From the launch instructions of the segmentation recipe's original implementation: 16 images per step on one, two
/// and four GPUs, --lr 1e-3.
TEST(Plan, ScaledByReplicasItHasTheRowsOfTheDocument) {
  struct Row {
    std::int64_t batch_size;
    std::int64_t replicas;
    double lr;
  };
  for (const Row& row : {Row{16, 1, 1e-3}, Row{8, 2, 2e-3}, Row{4, 4, 4e-3}}) {
    TrainConfig config;
    config.optimizer.lr = 1e-3;
    config.optimizer.lr_scaling = "replicas";
    config.batch_size = row.batch_size;
    const Plan plan = make_plan(config, 10, row.replicas);
    EXPECT_DOUBLE_EQ(plan.lr, row.lr);
    EXPECT_DOUBLE_EQ(plan.schedule.lr(0), row.lr);
    EXPECT_EQ(plan.total_batch, 16);
  }
}

std::vector<double> rates(const ScheduleConfig& schedule, std::int64_t count) {
  TrainConfig config;
  config.optimizer.lr = 8;
  config.epochs = 5;
  config.schedule = schedule;
  const Plan plan = make_plan(config, 2, 1);
  std::vector<double> found;
  for (std::int64_t step = 0; step < count; ++step) found.push_back(plan.schedule.lr(step));
  return found;
}

TEST(Plan, TheDefaultIsTheCosineAfterAWarmUpInStepsOfTheEpoch) {
  TrainConfig config;
  config.schedule.warmup_epochs = 0.5;
  config.optimizer.lr = 1e-3;
  const Plan plan = make_plan(config, 20, 1);
  EXPECT_DOUBLE_EQ(plan.schedule.lr(0), 1e-4);
  EXPECT_DOUBLE_EQ(plan.schedule.lr(9), 1e-3);
  EXPECT_DOUBLE_EQ(plan.schedule.lr(10), 1e-3);
  EXPECT_DOUBLE_EQ(plan.schedule.lr(105), (1e-3 + 1e-6) / 2);
  EXPECT_DOUBLE_EQ(plan.schedule.lr(200), 1e-6);
}

/// Runs started by earlier versions continue with the same bits.
TEST(Plan, TheDefaultHasTheBitsThatItAlwaysHad) {
  TrainConfig config;
  config.schedule.warmup_epochs = 0.5;
  const Plan plan = make_plan(config, 20, 1);
  const double lr = config.optimizer.lr;
  for (int step = 0; step < 210; ++step) {
    const double part = std::min((step - 10) / 190.0, 1.0);
    const double after = 1e-6 + (lr - 1e-6) * 0.5 * (1 + std::cos(3.14159265358979323846 * part));
    EXPECT_EQ(plan.schedule.lr(step), step < 10 ? lr * (step + 1) / 10 : after) << "step " << step;
  }
}

TEST(Plan, EpochsOfStepsAndMilestonesAreCountedFromTheStartOfTheRun) {
  using Rates = std::vector<double>;
  EXPECT_EQ(rates({.type = "step", .warmup_epochs = 1, .step_epochs = 2, .gamma = 0.5}, 10),
            (Rates{4, 8, 8, 8, 4, 4, 4, 4, 2, 2}));
  EXPECT_EQ(rates({.type = "multi_step", .warmup_steps = 3, .gamma = 0.5, .milestones = {"1", "2.5"}}, 7),
            (Rates{8.0 / 3, 16.0 / 3, 8, 4, 4, 2, 2}));
}

TEST(Plan, EveryTypeOfScheduleIsMade) {
  EXPECT_EQ(rates({.type = "none"}, 2), (std::vector<double>{8, 8}));
  EXPECT_EQ(rates({.type = "constant"}, 2), (std::vector<double>{8, 8}));
  EXPECT_EQ(rates({.type = "plateau", .warmup_steps = 2}, 4), (std::vector<double>{4, 8, 8, 8}));
  EXPECT_EQ(rates({.type = "polynomial", .min_lr = 0}, 12),
            (std::vector<double>{8, 7.2, 6.4, 5.6, 4.8, 4, 3.2, 8 * (1 - 0.7), 8 * (1 - 0.8), 8 * (1 - 0.9), 0, 0}));
  const std::vector<double> cycle = rates({.type = "one_cycle", .pct_start = 0.5, .div_factor = 4}, 10);
  EXPECT_DOUBLE_EQ(cycle[0], 2);
  EXPECT_DOUBLE_EQ(cycle[4], 8);
  EXPECT_NEAR(cycle[9], 2e-4, 1e-12);
  const std::vector<double> noam = rates({.type = "noam", .warmup_epochs = 2, .model_size = 4}, 10);
  EXPECT_DOUBLE_EQ(noam[3], 8 / 2.0 / 2.0);
  EXPECT_DOUBLE_EQ(noam[0], noam[3] / 4);
  EXPECT_DOUBLE_EQ(noam[8], 8 / 2.0 / 3.0);
  const ScheduleConfig flat{
      .type = "flat_cosine", .warmup_epochs = 1, .gamma = 0.5, .flat_epochs = 2, .no_aug_epochs = 1};
  EXPECT_EQ(rates(flat, 10), (std::vector<double>{0, 2, 8, 8, 8, rates(flat, 10)[5], 6, rates(flat, 10)[7], 4, 4}));
}

TEST(Plan, TheBannerSaysWhichScheduleItIs) {
  EXPECT_EQ(schedule_text({.type = "cosine", .warmup_epochs = 5}), "5 epochs of warm-up, then cosine");
  EXPECT_EQ(schedule_text({.type = "none"}), "constant");
  EXPECT_EQ(schedule_text({.type = "multi_step", .warmup_steps = 500, .milestones = {"30", "60"}}),
            "500 steps of warm-up, then x 0.1 at epochs 30, 60");
  EXPECT_EQ(schedule_text({.type = "plateau", .patience = 2}),
            "x 0.1 after 3 evaluations without improvement in metric");
  EXPECT_EQ(schedule_text({.type = "flat_cosine"}), "flat cosine");
}

// A run's state in a checkpoint, which is untrusted input.

/// A state with all entries.
StateDict full_state() {
  RunState run{.step = 12, .epoch = 1, .batch = 4, .samples = 64, .loss_sum = 0.5, .loss_count = 8, .skipped = 2};
  run.best = Metric{.name = "accuracy", .value = 0.5};
  run.best_step = 8;
  run.plateau = PlateauState{.lr = 0.1, .bad = 1, .cooldown = 2};
  run.stages.stage = 2;
  run.stages.base_step = 8;
  run.begun_replicas = 2;
  return to_state(run);
}

TEST(RunState, IsReadBackAsItWasWritten) {
  const RunState run = run_state_of(full_state());
  EXPECT_EQ(run.step, 12);
  EXPECT_EQ(run.batch, 4);
  EXPECT_EQ(run.stages.stage, 2);
  EXPECT_EQ(run.stages.base_step, 8);
  EXPECT_EQ(run.begun_replicas, 2);
}

TEST(RunState, RefusesByNameEachCountThatNoRunCanHave) {
  int counts = 0;
  for (const auto& [name, value] : full_state()) {
    if (!std::holds_alternative<std::int64_t>(value)) continue;
    ++counts;
    for (const std::int64_t absurd : {std::int64_t{-5}, std::int64_t{1'000'000'000'000'000'000}, INT64_MIN}) {
      StateDict state = full_state();
      state[name] = absurd;
      EXPECT_THAT(fault_of<DataError>([&] { (void)run_state_of(state); }),
                  AllOf(HasSubstr(name + " is " + std::to_string(absurd)), HasSubstr("valid values are")))
          << name;
    }
  }
  EXPECT_GE(counts, 10);
  StateDict third = full_state();
  third["stages.stage"] = std::int64_t{3};
  EXPECT_THAT(fault_of<DataError>([&] { (void)run_state_of(third); }), HasSubstr("valid values are 1 and 2"));
}

// An epoch whose position is past its last batch would never end.
TEST(RunState, StandsNotBehindTheLastBatchOfItsEpoch) {
  const RunState run = run_state_of(full_state());
  EXPECT_NO_THROW(require_place(run, 4));
  EXPECT_THAT(fault_of<DataError>([&] { require_place(run, 3); }), HasSubstr("batch is 4, but an epoch has 3 batches"));
}

}  // namespace plan_test
}  // namespace lockstep::train

namespace lockstep {
namespace plan_test {

using train::precision_text;

const c10::Device kCpu(c10::kCPU);
const c10::Device kCuda(c10::kCUDA, 0);

/// Restores libtorch's switches when a test ends.
class Tf32 : public ::testing::Test {
 protected:
  Tf32() : products_(at::globalContext().allowTF32CuBLAS()), convolutions_(at::globalContext().allowTF32CuDNN()) {}
  ~Tf32() override {
    at::globalContext().setAllowTF32CuBLAS(products_);
    at::globalContext().setAllowTF32CuDNN(convolutions_);
  }

  static std::string text_with(const std::string& tf32) {
    TrainConfig config;
    config.tf32 = tf32;
    train::use_tf32(config);
    return precision_text(config, kCuda);
  }

 private:
  bool products_;
  bool convolutions_;
};

TEST_F(Tf32, IsPyTorchsChoiceUnlessSet) {
  EXPECT_EQ(text_with("default"), "float32, channels last, TF32 in convolutions");
}

TEST_F(Tf32, IsTurnedOnAndOffForProductsAndConvolutionsTogether) {
  EXPECT_EQ(text_with("true"), "float32, channels last, TF32");
  EXPECT_TRUE(at::globalContext().allowTF32CuBLAS());
  EXPECT_TRUE(at::globalContext().allowTF32CuDNN());
  EXPECT_EQ(text_with("false"), "float32, channels last, no TF32");
  EXPECT_FALSE(at::globalContext().allowTF32CuBLAS());
  EXPECT_FALSE(at::globalContext().allowTF32CuDNN());
}

TEST_F(Tf32, IsOfNoInterestOnACpu) {
  TrainConfig config;
  config.tf32 = "true";
  EXPECT_EQ(precision_text(config, kCpu), "float32, channels last");
  config.amp = "bf16";
  EXPECT_EQ(precision_text(config, kCpu), "bf16 autocast, channels last");
  config.channels_last = false;
  EXPECT_EQ(precision_text(config, kCpu), "bf16 autocast");
  config.channels_last = true;
}

TEST(Precision, Float16ScalesTheLossAndNeedsAGpu) {
  TrainConfig config;
  config.amp = "fp16";
  EXPECT_TRUE(config.scales_loss());
  EXPECT_EQ(precision_text(config, kCuda), "fp16 autocast, channels last, scaled loss, TF32 in convolutions");
  EXPECT_NO_THROW(train::require_amp(config, kCuda));
  EXPECT_THROW(train::require_amp(config, kCpu), UsageError);
  config.grad_scaler.enabled = "false";
  EXPECT_FALSE(config.scales_loss());
}

TEST(Precision, TheSettingsAreReadAsTheyAreWrittenInYaml) {
  TrainConfig config;
  ConfigFields fields;
  config.describe(fields);
  fields.bind(ConfigTree::from_text("tf32: true\ngrad_scaler: {enabled: false, growth_interval: 100}\n", "settings"));
  EXPECT_EQ(config.tf32, "true");
  EXPECT_EQ(config.grad_scaler.enabled, "false");
  EXPECT_EQ(config.grad_scaler.growth_interval, 100);
  EXPECT_THROW(fields.bind(ConfigTree::from_text("tf32: maybe\n", "settings")), UsageError);
}

TEST(Precision, ThatEveryKernelIsWaitedForIsSaidOfAGpuOnly) {
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(train::launch_blocking_text(kCuda), "");
  ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
  EXPECT_EQ(train::launch_blocking_text(kCuda),
            "CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel; slow, for debugging");
  EXPECT_EQ(train::launch_blocking_text(kCpu), "");
  ::setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
  EXPECT_EQ(train::launch_blocking_text(kCuda), "");
  ::unsetenv("CUDA_LAUNCH_BLOCKING");
}

TEST(ToChannelsLast, OneChannelGetsTheStridesThatTellTheLayout) {
  const at::Tensor images = at::rand({2, 1, 6, 8});
  ASSERT_EQ(images.suggest_memory_format(), at::MemoryFormat::Contiguous);
  const at::Tensor changed = to_channels_last(images);
  EXPECT_EQ(changed.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(changed.equal(images));
}

TEST(ToChannelsLast, WhatIsNoImageComesBackAsItIs) {
  const at::Tensor rows = at::rand({2, 3});
  EXPECT_TRUE(to_channels_last(rows).is_same(rows));
}

TEST(UseChannelsLast, TheFirstLayersWeightsAreMarkedToo) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 4, 3));
  const at::Tensor before = conv->weight.detach().clone();
  use_channels_last(*conv);
  EXPECT_EQ(conv->weight.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(conv->weight.equal(before));
}

TEST(PrepareBatch, MarksImagesAsChannelsLastOnlyWhereThatIsAsked) {
  const c10::Device cpu(c10::kCPU);
  Batch batch;
  batch.data = at::rand({2, 3, 4, 4});
  prepare_batch(batch, cpu, false);
  EXPECT_EQ(batch.data.suggest_memory_format(), at::MemoryFormat::Contiguous);
  prepare_batch(batch, cpu, true);
  EXPECT_EQ(batch.data.suggest_memory_format(), at::MemoryFormat::ChannelsLast);
}

TEST(MoveTo, TakesDataAndTargetWithTheirTypesAndLeavesWhatIsThereAlready) {
  Batch batch;
  batch.data = at::rand({2, 3});
  const at::Tensor before = batch.data;
  move_to(batch, c10::Device(c10::kCPU));
  EXPECT_TRUE(batch.data.is_same(before));
  EXPECT_FALSE(batch.target.defined());
  batch.target = at::ones({2}, at::kLong);
  move_to(batch, c10::Device(c10::DeviceType::Meta));
  EXPECT_TRUE(batch.data.is_meta());
  EXPECT_TRUE(batch.target.is_meta());
  EXPECT_EQ(batch.target.scalar_type(), at::kLong);
}

}  // namespace plan_test
}  // namespace lockstep
