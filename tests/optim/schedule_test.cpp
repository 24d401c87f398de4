// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/schedule.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Schedule, WarmsUpFromTheFirstStep) {
  const Schedule schedule{.base_lr = 6e-4, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(schedule.lr(0), 1.5e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(2), 4.5e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(3), 6e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(1000), 6e-4);
}

TEST(Schedule, FallsAlongHalfACosine) {
  const Schedule schedule{
      .type = ScheduleType::kCosine, .base_lr = 1e-3, .warmup_steps = 10, .total_steps = 110, .min_lr = 1e-6};
  EXPECT_DOUBLE_EQ(schedule.lr(9), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.lr(10), 1e-3);
  EXPECT_NEAR(schedule.lr(60), (1e-3 + 1e-6) / 2, 1e-15);
  EXPECT_NEAR(schedule.lr(110), 1e-6, 1e-18);
  EXPECT_NEAR(schedule.lr(5000), 1e-6, 1e-18);
  for (int step = 10; step < 110; ++step) EXPECT_GT(schedule.lr(step), schedule.lr(step + 1));
}

TEST(Schedule, StaysFiniteWithoutStepsAfterTheWarmUp) {
  const Schedule schedule{.type = ScheduleType::kCosine, .base_lr = 1e-3, .warmup_steps = 5, .total_steps = 5};
  EXPECT_DOUBLE_EQ(schedule.lr(4), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.lr(5), 1e-3);
}

TEST(Schedule, NeverRisesToItsFloor) {
  const Schedule schedule{.type = ScheduleType::kCosine, .base_lr = 1e-7, .total_steps = 10, .min_lr = 1e-6};
  EXPECT_DOUBLE_EQ(schedule.lr(10), 1e-7);
}

}  // namespace
}  // namespace lockstep
