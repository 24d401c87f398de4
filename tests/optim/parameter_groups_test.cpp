// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/parameter_groups.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/lars.h"
#include "lockstep/optim/sgd.h"

namespace lockstep {
namespace parameter_groups_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NamedTensors parameters() {
  return {{"conv.weight", at::ones({2})},
          {"conv.bias", at::ones({2})},
          {"fc.weight", at::ones({2})},
          {"fc.bias", at::ones({2})}};
}

/// Every gradient one.
void step(Optimizer& optimizer) {
  for (const auto& item : optimizer.parameters()) item.second.mutable_grad() = at::ones({2});
  optimizer.step();
}

double value(const Optimizer& optimizer, std::size_t index) {
  return optimizer.parameters()[index].second[0].item<double>();
}

template <class Make>
std::string usage_error(const Make& make) {
  try {
    make();
  } catch (const UsageError& error) {
    return error.message();
  }
  return "";
}

TEST(ParameterGroups, HaveTheirOwnLearningRateAndDecay) {
  SGD optimizer(parameters(),
                {.lr = 0.1,
                 .weight_decay = 1,
                 .groups = {{.pattern = R"(\.bias$)", .weight_decay = 0}, {.pattern = "^fc\\.weight$", .lr = 0.5}}});
  step(optimizer);
  EXPECT_FLOAT_EQ(value(optimizer, 0), 0.8F);  // 1 - 0.1 * (1 + 1)
  EXPECT_FLOAT_EQ(value(optimizer, 1), 0.9F);
  EXPECT_FLOAT_EQ(value(optimizer, 2), 0.0F);  // 1 - 0.5 * (1 + 1)
  EXPECT_FLOAT_EQ(value(optimizer, 3), 0.9F);
  const auto groups = optimizer.groups();
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].pattern, "");
  EXPECT_THAT(groups[0].parameters, ElementsAre("conv.weight"));
  EXPECT_THAT(groups[1].parameters, ElementsAre("conv.bias", "fc.bias"));
  EXPECT_THAT(groups[2].parameters, ElementsAre("fc.weight"));
  EXPECT_EQ(groups[1].weight_decay, 0);
  EXPECT_EQ(groups[2].lr, 0.5);
}

TEST(ParameterGroups, KeepTheirRatioToTheOptimizersRate) {
  SGD optimizer(parameters(), {.lr = 0.1, .groups = {{.pattern = "^fc", .lr = 0.3}, {.pattern = "conv.bias"}}});
  EXPECT_EQ(optimizer.groups()[1].lr, 0.3);
  optimizer.set_lr(0.05);
  EXPECT_EQ(optimizer.lr(), 0.05);
  EXPECT_EQ(optimizer.groups()[0].lr, 0.05);
  EXPECT_DOUBLE_EQ(optimizer.groups()[1].lr, 0.15);
  EXPECT_EQ(optimizer.groups()[2].lr, 0.05) << "a group without a rate of its own has the optimizer's";
  step(optimizer);
  EXPECT_FLOAT_EQ(value(optimizer, 2), 0.85F);
  optimizer.set_lr(0.1);
  EXPECT_EQ(optimizer.groups()[1].lr, 0.3) << "back at the start, exactly";
  optimizer.set_lr(0);
  EXPECT_EQ(optimizer.groups()[1].lr, 0);
}

TEST(ParameterGroups, TakeMomentumBetasAndEpsWhereTheOptimizerHasThem) {
  SGD sgd(parameters(), {.lr = 0.1, .momentum = 0.5, .groups = {{.pattern = "^fc", .momentum = 0.9}}});
  step(sgd);
  step(sgd);
  EXPECT_FLOAT_EQ(value(sgd, 0), 0.75F);  // 0.1 + 0.15
  EXPECT_FLOAT_EQ(value(sgd, 2), 0.71F);  // 0.1 + 0.19
  AdamW adamw(
      parameters(),
      {.lr = 0.1, .weight_decay = 0, .groups = {{.pattern = "^fc", .betas = std::array{0.5, 0.5}, .eps = 1.0}}});
  step(adamw);
  EXPECT_NEAR(value(adamw, 0), 0.9, 1e-6);
  EXPECT_NEAR(value(adamw, 2), 0.95, 1e-6);  // 0.1 * 1 / (1 + eps)
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.groups = {{.pattern = "fc", .eps = 1.0}}}); }),
              AllOf(HasSubstr("'fc'"), HasSubstr("eps"), HasSubstr("SGD")));
  EXPECT_THAT(usage_error([] { AdamW(parameters(), {.groups = {{.pattern = "fc", .momentum = 1.0}}}); }),
              HasSubstr("momentum"));
}

TEST(ParameterGroups, LeaveExclusionsFromDecayAsTheyAre) {
  SGD optimizer(parameters(), {.lr = 0.1,
                               .weight_decay = 1,
                               .no_decay = [](const std::string& name) { return name == "fc.weight"; },
                               .groups = {{.pattern = "^fc", .weight_decay = 2}}});
  step(optimizer);
  EXPECT_FLOAT_EQ(value(optimizer, 2), 0.9F);
  EXPECT_FLOAT_EQ(value(optimizer, 3), 0.7F);
}

TEST(ParameterGroups, RefuseAParameterOfTwoGroups) {
  EXPECT_THAT(usage_error([] {
                SGD(parameters(), {.groups = {{.pattern = "^fc"}, {.pattern = "bias"}}});
              }),
              AllOf(HasSubstr("'fc.bias'"), HasSubstr("'^fc'"), HasSubstr("'bias'")));
}

TEST(ParameterGroups, RefuseAPatternThatMatchesNothing) {
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.groups = {{.pattern = "^norm"}}}); }), HasSubstr("'^norm'"));
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.groups = {{.pattern = "("}}}); }), HasSubstr("'('"));
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.groups = {{.lr = 1.0}}}); }), HasSubstr("no pattern"));
}

TEST(ParameterGroups, RefuseOptionsThatMakeNoSense) {
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.groups = {{.pattern = "fc", .lr = -0.1}}}); }), HasSubstr("-0.1"));
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.lr = 0, .groups = {{.pattern = "fc", .lr = 0.1}}}); }),
              HasSubstr("'fc'"));
  EXPECT_THAT(usage_error([] { SGD(parameters(), {.groups = {{.pattern = "fc", .momentum = 0.9}}}); }),
              HasSubstr("other state"));
}

TEST(ParameterGroups, WorkForOptimizersOfWholeParameters) {
  LARS optimizer(parameters(),
                 {.lr = 1, .momentum = 0, .trust = 0.1, .weight_decay = 0, .groups = {{.pattern = "^fc", .lr = 2.0}}});
  step(optimizer);
  EXPECT_FLOAT_EQ(value(optimizer, 0), 0.9F);  // |x| = |g|
  EXPECT_FLOAT_EQ(value(optimizer, 2), 0.8F);
  EXPECT_FALSE(optimizer.elementwise());
}

TEST(ParameterGroups, LetAParameterWithoutAGradientBe) {
  SGD optimizer(parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1});
  optimizer.parameters()[1].second.mutable_grad() = at::zeros({2});
  optimizer.step();
  EXPECT_EQ(value(optimizer, 0), 1);
  EXPECT_FLOAT_EQ(value(optimizer, 1), 0.9F);
  EXPECT_EQ(std::get<std::int64_t>(optimizer.state_dict().at("conv.weight.step")), 0);
}

}  // namespace parameter_groups_test
}  // namespace lockstep
