// SPDX-License-Identifier: Apache-2.0
// Learning rates and moving averages, which follow the step count.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/plateau.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/tensor/random.h"
#include "tensor/golden.h"

namespace lockstep {
namespace schedule_test {

using Json = nlohmann::json;

// Learning rates against those of torch.optim.lr_scheduler, and their behaviour at either end.

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

/// PyTorch derives some learning rates from the previous step's, so small numbers may differ.
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

namespace ema_test {

using Json = nlohmann::json;

// The moving average against the formula in plain PyTorch, and the swap for evaluations.

const Json& golden() {
  static const Json kGolden = test::read_golden("optim/golden/ema.json");
  return kGolden;
}

/// A model with the dumped entries as parameters that require gradients, and a count of batches.
NamedTensors model_of(const Json& values, at::ScalarType dtype, bool channels_last) {
  NamedTensors model;
  for (const auto& [name, dumped] : values.items()) {
    at::Tensor value = test::to_tensor(dumped).to(dtype);
    if (channels_last && value.dim() == 4) value = value.contiguous(at::MemoryFormat::ChannelsLast);
    model.emplace_back(name, value.requires_grad_());
  }
  model.emplace_back("norm.num_batches_tracked", at::zeros({}, at::kLong));
  return model;
}

at::Tensor entry(const EMA& ema, const std::string& name) { return std::get<at::Tensor>(ema.state_dict().at(name)); }

/// The moving average after all dumped updates.
EMA trained(const Json& one, const NamedTensors& model) {
  const at::NoGradGuard no_grad;
  const Json& options = one.at("options");
  EMA ema(model, {.decay = options.at("decay"), .warmups = options.at("warmups")});
  for (std::size_t n = 1; n < golden().at("values").size(); ++n) {
    for (auto [name, value] : model) {
      if (value.is_floating_point()) value.copy_(test::to_tensor(golden().at("values").at(n).at(name)));
    }
    model.back().second.add_(1);
    if (options.contains("from") && n == options.at("from").get<std::size_t>()) ema.set_decay(options.at("then"));
    ema.update();
  }
  return ema;
}

TEST(Ema, HasTheBitsOfTheFormulaInPyTorchInAnyLayout) {
  for (const bool channels_last : {false, true}) {
    for (const auto& [name, one] : golden().at("cases").items()) {
      const EMA ema = trained(one, model_of(golden().at("values").at(0), at::kFloat, channels_last));
      for (const auto& [key, dumped] : one.at("after").items()) {
        EXPECT_TRUE(entry(ema, key).equal(test::to_tensor(dumped))) << name << " " << key;
      }
      EXPECT_EQ(ema.updates(), 20);
    }
  }
}

TEST(Ema, AveragesOtherFloatingTypesAndCopiesWholeNumbers) {
  const Json& one = golden().at("cases").at("changed");
  const EMA ema = trained(one, model_of(golden().at("values").at(0), at::kDouble, false));
  for (const auto& [key, dumped] : one.at("after").items()) {
    EXPECT_LT(test::relative_difference(entry(ema, key), test::to_tensor(dumped), 0.1), 1e-6) << key;
  }
  EXPECT_EQ(entry(ema, "norm.num_batches_tracked").item<std::int64_t>(), 20);
}

TEST(Ema, SwapsInPlaceAndBackWhateverHappens) {
  seed_all(1);
  const at::Tensor dense = at::randn({5000}).requires_grad_();
  const at::Tensor strided = at::randn({6, 4}).t().slice(0, 0, 4, 2);
  EMA ema(NamedTensors{{"dense", dense}, {"strided", strided}, {"none", at::zeros({0})}}, {.decay = 0.5, .warmups = 0});
  {
    const at::NoGradGuard no_grad;
    dense.add_(1);
    strided.add_(1);
  }
  ema.update();
  const at::Tensor average = entry(ema, "dense").clone();
  const at::Tensor strided_average = entry(ema, "strided").clone();
  const at::Tensor own = dense.detach().clone();
  const at::Tensor strided_own = strided.clone();
  const void* memory = dense.data_ptr();
  try {
    const EMA::Swapped averaged = ema.swap_in();
    EXPECT_TRUE(dense.equal(average));
    EXPECT_TRUE(strided.equal(strided_average));
    EXPECT_EQ(dense.data_ptr(), memory);
    EXPECT_THROW(ema.update(), UsageError);
    EXPECT_THROW((void)ema.state_dict(), UsageError);
    EXPECT_THROW((void)ema.swap_in(), UsageError);
    throw std::runtime_error("an evaluation that fails");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(dense.equal(own));
  EXPECT_TRUE(strided.equal(strided_own));
  EXPECT_TRUE(entry(ema, "dense").equal(average));
  EXPECT_TRUE(entry(ema, "strided").equal(strided_average));
}

TEST(Ema, GoesOnFromItsStateWithTheSameBits) {
  seed_all(2);
  const at::Tensor value = at::randn({100});
  EMA one(NamedTensors{{"w", value}}, {.decay = 0.9, .warmups = 3});
  for (int i = 0; i < 3; ++i) one.update();
  EMA other(NamedTensors{{"w", at::zeros({100})}}, {.decay = 0.9, .warmups = 3});
  other.load_state_dict(one.state_dict());
  EXPECT_EQ(other.updates(), 3);
  EXPECT_TRUE(entry(other, "w").equal(entry(one, "w")));
  EXPECT_FALSE(entry(other, "w").is_same(entry(one, "w")));
  EXPECT_EQ(ema_state_of(one.state_dict()).model.size(), 1U);
  EXPECT_EQ(ema_state_of(one.state_dict()).updates, 3);
}

TEST(Ema, LoadsAnAverageOfTiedWeightsUnderAllTheirNames) {
  const at::Tensor shared = at::zeros({2});
  EMA ema{NamedTensors{{"embed", shared}, {"head", shared}}};
  EXPECT_EQ(ema.state_dict().size(), 3U) << "both names, as the model's state has, and the number of updates";
  const at::Tensor average = at::ones({2});
  ema.load_state_dict({{"embed", average}, {"head", average.clone()}, {"ema.updates", std::int64_t{5}}});
  const EMA::Swapped swapped = ema.swap_in();
  EXPECT_TRUE(shared.equal(average));
}

TEST(Ema, LeavesTheFirstCallsOutAlsoWhereItGoesOnFromItsState) {
  const at::Tensor value = at::ones({3});
  EMA ema(NamedTensors{{"w", value}}, {.decay = 0.5, .warmups = 0, .start = 2});
  value.zero_();
  ema.update();
  EMA other(NamedTensors{{"w", value}}, {.decay = 0.5, .warmups = 0, .start = 2});
  other.load_state_dict(ema.state_dict());
  other.update();
  EXPECT_TRUE(entry(other, "w").equal(at::ones({3})));
  EXPECT_EQ(other.updates(), 0);
  other.update();
  EXPECT_TRUE(entry(other, "w").equal(at::full({3}, 0.5)));
  EXPECT_EQ(other.updates(), 1);
}

TEST(Ema, AnotherStateIsADataErrorAndNothingIsLoaded) {
  EMA ema(NamedTensors{{"w", at::ones({3})}});
  EXPECT_THROW(ema.load_state_dict({{"w", at::zeros({3})}}), DataError);
  EXPECT_THROW(ema.load_state_dict({{"v", at::zeros({3})}, {"ema.updates", std::int64_t{1}}}), DataError);
  EXPECT_THROW(ema.load_state_dict({{"w", at::zeros({4})}, {"ema.updates", std::int64_t{1}}}), DataError);
  EXPECT_EQ(ema.updates(), 0);
  EXPECT_TRUE(entry(ema, "w").equal(at::ones({3})));
}

TEST(Ema, OptionsThatCannotBeAreUsageErrors) {
  const NamedTensors model{{"w", at::ones({3})}};
  EXPECT_THROW(EMA(model, {.decay = 1}), UsageError);
  EXPECT_THROW(EMA(model, {.decay = -0.1}), UsageError);
  EXPECT_THROW(EMA(model, {.warmups = -1}), UsageError);
  EXPECT_THROW(EMA(model, {.start = -1}), UsageError);
  EXPECT_THROW(EMA(NamedTensors{{"ema.updates", at::ones({3})}}), UsageError);
  EXPECT_THROW(EMA(model).set_decay(1), UsageError);
}

}  // namespace ema_test
}  // namespace lockstep
