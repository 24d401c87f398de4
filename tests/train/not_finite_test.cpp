// SPDX-License-Identifier: Apache-2.0
// What is said of gradients and losses that are not finite, or unusual.
#include "train/step/not_finite.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "lockstep/train/function_task.h"
#include "lockstep/train/trainer.h"
#include "support/alone.h"
#include "support/run_ranks.h"
#include "support/temp_dir.h"

namespace lockstep::train {
namespace not_finite_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

at::Tensor with_gradient(const std::vector<float>& gradient) {
  at::Tensor parameter = at::ones({static_cast<std::int64_t>(gradient.size())}).requires_grad_();
  parameter.mutable_grad() = at::tensor(gradient);
  return parameter;
}

TEST(NonFiniteGradients, AreNamedWithTheNumberOfTheirElements) {
  EXPECT_EQ(non_finite_gradients({{"a", with_gradient({1, 2})}}), "");
  EXPECT_EQ(non_finite_gradients({{"a", with_gradient({1, 2})}, {"b", with_gradient({kNan, 2, kNan})}}),
            "b (2 of 3 elements)");
  EXPECT_EQ(non_finite_gradients({{"a", with_gradient({kNan})}, {"b", with_gradient({kNan})}}),
            "a (1 of 1 elements) and 1 more of 2 parameters");
}

TEST(BadLosses, AreNamedByRankAndReplica) {
  EXPECT_EQ(ranks_with_bad_loss({{}, {}}), "");
  EXPECT_EQ(ranks_with_bad_loss({{}, {2, 3}}), "on rank 1 (replicas 2, 3)");
  EXPECT_EQ(ranks_with_bad_loss({{0}, {}, {2}}), "on rank 0 (replica 0), rank 2 (replica 2)");
  EXPECT_EQ(ranks_with_bad_loss({{0}, {1}}), "on every rank");
}

TEST(NormWatch, TellsOfANormFarAboveTheMedianOnly) {
  NormWatch watch;
  EXPECT_EQ(watch.add(1000), std::nullopt) << "there is nothing to compare it with";
  for (int i = 0; i < 40; ++i) EXPECT_EQ(watch.add(1 + 0.1 * (i % 10)), std::nullopt);
  EXPECT_EQ(watch.add(10), std::nullopt);
  const auto ratio = watch.add(150);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(*ratio, 100, 10);
}

TEST(LargestGradient, IsNamedWithItsShareOfTheSquares) {
  EXPECT_EQ(largest_gradient({{"a", with_gradient({1})}, {"b", with_gradient({3})}}), "b has 90 % of it");
}

struct LineNet : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return line(x); }
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
};

/// The gradient of the root is infinite at 0, and the loss is 0.
TaskOptions with_bad_gradient() {
  return {
      .model = [] { return LineNet(); },
      .dataset =
          [](const std::string&) { return make_dataset(8, [](std::int64_t) { return Sample{at::full({1}, 1.0)}; }); },
      .loss = [](const at::Tensor& output, const Batch& /*batch*/) { return (output * 0).sqrt().mean(); }};
}

std::string error_of(const Job& job, const TaskOptions& options, TrainConfig config) {
  const test::TempDir folder;
  FunctionTask task(options);
  config.max_steps = 3;
  config.data.train = "made up";
  try {
    (void)Trainer(job, task, config, {.recipe = "line", .run_dir = folder / "run"}).fit();
    return "no error";
  } catch (const DataError& error) {
    return error.message();
  }
}

TEST(Training, EndsAtTheFirstGradientThatIsNotFinite) {
  TrainConfig config;
  config.check_gradients = true;
  EXPECT_THAT(
      error_of(testing::alone(), with_bad_gradient(), config),
      HasSubstr("step 1: the gradient is not finite: line.weight (1 of 1 elements) and 1 more of 2 parameters"));
  config.check_gradients = false;
  config.clip_norm = 1;
  EXPECT_THAT(error_of(testing::alone(), with_bad_gradient(), config), HasSubstr("step 1: the gradient is not finite"));
}

RANKS_TEST(Training, NamesTheRankWhoseLossIsNotFinite, 2) {
  TaskOptions options = with_bad_gradient();
  options.loss = [rank = job.rank()](const at::Tensor& output, const Batch& /*batch*/) {
    return rank == 1 ? output.mean() * kNan : output.mean();
  };
  EXPECT_THAT(error_of(job, options, {}),
              AllOf(HasSubstr("the loss of step 1 is nan"), HasSubstr("on rank 1 (replica 1)")));
  TrainConfig clipped;
  clipped.clip_norm = 1;
  EXPECT_THAT(error_of(job, options, clipped), HasSubstr("the loss of step 1 is nan on rank 1 (replica 1)"));
}

}  // namespace not_finite_test
}  // namespace lockstep::train
