// SPDX-License-Identifier: Apache-2.0
#include "train/plan/plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/settings/schedule_choice.h"

namespace lockstep::train {
namespace plan_test {

TEST(Plan, CountsOptimizerStepsOverAccumulatedBatches) {
  TrainConfig config;
  config.epochs = 3;
  config.accumulate_steps = 4;
  const Plan plan = make_plan(config, 10, 2);
  EXPECT_EQ(plan.steps_per_epoch, 3);  // 4 + 4 + 2 batches
  EXPECT_EQ(plan.total_steps, 9);
  EXPECT_EQ(plan.total_batch, 64 * 4 * 2);
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

/// The segmentation origin's launch document: 16 images a step on one, two and four cards, --lr 1e-3.
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

/// Runs of earlier versions go on with the same bits.
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
  EXPECT_EQ(schedule_text({.type = "plateau", .patience = 2}), "x 0.1 after 3 evaluations without a better metric");
  EXPECT_EQ(schedule_text({.type = "flat_cosine"}), "flat cosine");
}

}  // namespace plan_test
}  // namespace lockstep::train
