// SPDX-License-Identifier: Apache-2.0
// Learning rates against those of torch.optim.lr_scheduler, and what they do at the ends.
#include "lockstep/optim/schedule.h"

#include <gtest/gtest.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/optim/plateau.h"
#include "tensor/golden.h"

namespace lockstep {
namespace schedule_test {

using Json = nlohmann::json;

const Json& golden() {
  static const Json kGolden = test::read_golden("optim/golden/schedules.json");
  return kGolden;
}

struct GoldenCase {
  const char* name;
  Schedule schedule;
};

std::vector<GoldenCase> golden_cases() {
  const OneCycleOptions cycle{.max_lr = 0.1, .total_steps = 40};
  OneCycleOptions linear = cycle;
  linear.pct_start = 0.25;
  linear.div_factor = 10;
  linear.linear = true;
  OneCycleOptions three = cycle;
  three.three_phase = true;
  three.final_div_factor = 100;
  const Schedule cosine = Schedule::cosine({.lr = 0.1, .steps = 20, .min_lr = 1e-3});
  return {
      {"step", Schedule::step({.lr = 0.1, .step_size = 3, .gamma = 0.5})},
      {"multi_step", Schedule::multi_step({.lr = 0.1, .milestones = {9, 4, 9}, .gamma = 0.1})},
      {"linear_warmup", Schedule::linear_warmup({.lr = 0.1, .steps = 7})},
      {"cosine", Schedule::cosine({.lr = 0.1, .steps = 25, .min_lr = 1e-3})},
      {"polynomial", Schedule::polynomial({.lr = 0.1, .steps = 12, .power = 2.5})},
      {"one_cycle", Schedule::one_cycle(cycle)},
      {"one_cycle_linear", Schedule::one_cycle(linear)},
      {"one_cycle_three", Schedule::one_cycle(three)},
      {"chained", Schedule::linear_warmup({.lr = 0.1, .steps = 5}).then(5, cosine)},
      {"noam", Schedule::noam({.factor = 0.5, .model_size = 64, .warmup_steps = 8})},
      {"flat_cosine",
       Schedule::flat_cosine(
           {.lr = 0.1, .warmup_steps = 4, .flat_until = 10, .total_steps = 30, .final_steps = 6, .gamma = 0.25})},
  };
}

/// How the small numbers of `name` differ from PyTorch's, which takes some of them from the step before.
TEST(Schedule, HasTheLearningRatesOfPyTorch) {
  const auto cases = golden_cases();
  EXPECT_EQ(cases.size(), golden().at("schedules").size());
  for (const GoldenCase& one : cases) {
    std::int64_t step = 0;
    for (const double expected : golden().at("schedules").at(one.name)) {
      EXPECT_NEAR(one.schedule.lr(step), expected, 1e-12 * (expected + 1e-3)) << one.name << " at step " << step;
      ++step;
    }
    EXPECT_GE(step, 12) << one.name;
  }
}

TEST(Schedule, WarmsUpFromTheFirstStep) {
  const Schedule schedule = Schedule::linear_warmup({.lr = 6e-4, .steps = 4});
  EXPECT_DOUBLE_EQ(schedule.lr(0), 1.5e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(2), 4.5e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(3), 6e-4);
  EXPECT_DOUBLE_EQ(schedule.lr(1000), 6e-4);
}

TEST(Schedule, FallsAlongHalfACosineAndStaysAtItsEnd) {
  const Schedule schedule = Schedule::cosine({.lr = 1e-3, .steps = 100, .min_lr = 1e-6});
  EXPECT_DOUBLE_EQ(schedule.lr(0), 1e-3);
  EXPECT_NEAR(schedule.lr(50), (1e-3 + 1e-6) / 2, 1e-15);
  EXPECT_NEAR(schedule.lr(100), 1e-6, 1e-18);
  EXPECT_NEAR(schedule.lr(5000), 1e-6, 1e-18);
  for (int step = 0; step < 100; ++step) EXPECT_GT(schedule.lr(step), schedule.lr(step + 1));
}

TEST(Schedule, AllStayAtTheirEnds) {
  EXPECT_DOUBLE_EQ(Schedule::polynomial({.lr = 1, .steps = 10, .min_lr = 0.5}).lr(1000), 0.5);
  EXPECT_DOUBLE_EQ(Schedule::one_cycle({.max_lr = 1, .total_steps = 10}).lr(1000), 1 / 25.0 / 1e4);
  EXPECT_DOUBLE_EQ(Schedule::flat_cosine({.lr = 1, .total_steps = 10, .gamma = 0.5}).lr(1000), 0.5);
}

TEST(Schedule, StaysFiniteWithoutSteps) {
  EXPECT_DOUBLE_EQ(Schedule::cosine({.lr = 1e-3, .steps = 0}).lr(0), 1e-3);
  EXPECT_DOUBLE_EQ(Schedule::polynomial({.lr = 1e-3, .steps = -3}).lr(0), 1e-3);
  EXPECT_DOUBLE_EQ(Schedule::flat_cosine({.lr = 1e-3, .total_steps = 1}).lr(0), 1e-3);
  EXPECT_DOUBLE_EQ(Schedule::one_cycle({.max_lr = 1, .total_steps = 2, .pct_start = 0.5}).lr(0), 1);
}

TEST(Schedule, NeverRisesToItsFloor) {
  EXPECT_DOUBLE_EQ(Schedule::cosine({.lr = 1e-7, .steps = 10, .min_lr = 1e-6}).lr(10), 1e-7);
  EXPECT_DOUBLE_EQ(Schedule::polynomial({.lr = 1e-7, .steps = 10, .min_lr = 1e-6}).lr(10), 1e-7);
}

TEST(Schedule, ChainsOfChainsCountFromTheirOwnBeginning) {
  const Schedule last = Schedule::step({.lr = 4, .step_size = 2, .gamma = 0.5});
  const Schedule schedule = Schedule::constant(1).then(3, Schedule::constant(2).then(2, last));
  std::vector<double> found;
  for (int step = 0; step < 9; ++step) found.push_back(schedule.lr(step));
  EXPECT_EQ(found, (std::vector<double>{1, 1, 1, 2, 2, 4, 4, 2, 2}));
  EXPECT_EQ(Schedule::constant(1).then(0, Schedule::constant(2)).lr(0), 2);
}

TEST(Schedule, OptionsThatCannotBeAreUsageErrors) {
  EXPECT_THROW((void)Schedule::step({.step_size = 0}), UsageError);
  EXPECT_THROW((void)Schedule::polynomial({.power = 0}), UsageError);
  EXPECT_THROW((void)Schedule::one_cycle({.total_steps = 1}), UsageError);
  EXPECT_THROW((void)Schedule::one_cycle({.total_steps = 9, .pct_start = 1}), UsageError);
  EXPECT_THROW((void)Schedule::one_cycle({.total_steps = 9, .pct_start = 0.6, .three_phase = true}), UsageError);
  EXPECT_THROW((void)Schedule::one_cycle({.total_steps = 9, .div_factor = 0}), UsageError);
  EXPECT_THROW((void)Schedule::noam({.warmup_steps = 0}), UsageError);
  EXPECT_THROW((void)Schedule::flat_cosine({.warmup_steps = -1}), UsageError);
  EXPECT_THROW((void)Schedule::constant(1).then(-1, Schedule::constant(1)), UsageError);
}

PlateauOptions plateau_of(const Json& dumped) {
  PlateauOptions options;
  options.lower_is_better = dumped.value("mode", "min") == "min";
  options.relative = dumped.value("threshold_mode", "rel") == "rel";
  options.factor = dumped.value("factor", options.factor);
  options.patience = dumped.value("patience", options.patience);
  options.threshold = dumped.value("threshold", options.threshold);
  options.cooldown = dumped.value("cooldown", options.cooldown);
  options.min_lr = dumped.value("min_lr", options.min_lr);
  options.eps = dumped.value("eps", options.eps);
  return options;
}

TEST(Plateau, HasTheLearningRatesOfPyTorch) {
  for (const auto& [name, dumped] : golden().at("plateaus").items()) {
    const PlateauOptions options = plateau_of(dumped.at("options"));
    PlateauState state{.lr = 0.1};
    std::size_t i = 0;
    for (const double metric : golden().at("metrics")) {
      state = after_metric(options, state, metric);
      EXPECT_DOUBLE_EQ(state.lr, dumped.at("lr").at(i).get<double>()) << name << " after metric " << i;
      ++i;
    }
    EXPECT_LT(state.lr, 0.1) << name;
  }
}

TEST(Plateau, AMetricThatIsNotANumberIsABadOne) {
  const PlateauState state = after_metric({.patience = 3}, {.lr = 1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(state.bad, 1);
  EXPECT_FALSE(state.best.has_value());
  EXPECT_THROW((void)after_metric({.factor = 1}, {}, 1), UsageError);
}

}  // namespace schedule_test
}  // namespace lockstep
