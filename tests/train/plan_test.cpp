// SPDX-License-Identifier: Apache-2.0
#include "train/plan.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

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
  config.optimizer.lr_scaling = "batch";
  config.batch_size = 128;
  EXPECT_DOUBLE_EQ(make_plan(config, 10, 4).lr, 0.1 * 512 / 256);
}

TEST(Plan, WarmUpIsCountedInStepsOfTheEpoch) {
  TrainConfig config;
  config.schedule.warmup_epochs = 0.5;
  const Plan plan = make_plan(config, 20, 1);
  EXPECT_EQ(plan.schedule.warmup_steps, 10);
  EXPECT_EQ(plan.schedule.total_steps, 200);
  EXPECT_EQ(plan.schedule.type, ScheduleType::kCosine);
}

}  // namespace
}  // namespace lockstep::train
