// SPDX-License-Identifier: Apache-2.0
// Steps over parameter groups: clipping, and the ways to take a step.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/lars.h"
#include "lockstep/optim/lion.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/random.h"
#include "optim/foreach.h"
#include "optim/setup.h"
#include "tensor/golden.h"

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

/// Takes a step in which every gradient is one.
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
              HasSubstr("different state"));
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

namespace clip_test {

using optim::Rule;
using optim::StepValues;
using optim::TensorLists;

at::Tensor with_grad(const at::Tensor& grad) {
  const at::Tensor value = at::ones(grad.sizes());
  value.mutable_grad() = grad;
  return value;
}

TEST(Clip, NormIsThatOfAllGradientsTogether) {
  seed_all(1);
  const at::Tensor a = at::randn({70, 91});
  const at::Tensor b = at::randn({5});
  const double expected =
      std::sqrt(a.to(at::kDouble).square().sum().item<double>() + b.to(at::kDouble).square().sum().item<double>());
  const NamedTensors parameters{{"a", with_grad(a)}, {"b", with_grad(b)}, {"none", at::ones({3})}};
  EXPECT_NEAR(grad_norm(parameters), expected, 1e-12 * expected);
}

TEST(Clip, NormHasTheSameBitsInAnyOrderOfParameters) {
  seed_all(2);
  const NamedTensors there{
      {"a", with_grad(at::randn({9001}))}, {"b", with_grad(at::randn({17}))}, {"c", with_grad(at::randn({4096}))}};
  const NamedTensors back(there.rbegin(), there.rend());
  EXPECT_EQ(grad_norm(there), grad_norm(back));
}

TEST(Clip, NormFollowsTheParametersMemoryNotTheGradients) {
  seed_all(2);
  const at::Tensor grad = at::randn({64, 32, 3, 3});
  const at::Tensor value = at::ones({64, 32, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  value.mutable_grad() = grad;
  const double one = grad_norm({{"w", value}});
  value.mutable_grad() = grad.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(grad_norm({{"w", value}}), one);
}

TEST(Clip, ScalesDownToTheMaximumAndReturnsTheNormBefore) {
  const at::Tensor grad = at::full({4}, 3.0);
  EXPECT_DOUBLE_EQ(clip_grad_norm(NamedTensors{{"w", with_grad(grad)}}, 1.5), 6.0);
  EXPECT_NEAR(grad[0].item<double>(), 0.75, 1e-6);
}

TEST(Clip, LeavesSmallGradientsBitForBit) {
  const at::Tensor grad = at::full({4}, 0.1);
  const at::Tensor before = grad.clone();
  clip_grad_norm(NamedTensors{{"w", with_grad(grad)}}, 1.5);
  EXPECT_TRUE(grad.equal(before));
}

TEST(Clip, KeepsANormThatIsNotFiniteForTheCaller) {
  const at::Tensor grad = at::full({2}, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isinf(clip_grad_norm(NamedTensors{{"w", with_grad(grad)}}, 1.0)));
  EXPECT_EQ(clip_factor(std::nan(""), 1.0), 1.0);
  EXPECT_THROW((void)clip_factor(1.0, 0.0), UsageError);
}

TEST(Clip, ByValueEachElementIsPutBetweenTheBounds) {
  const at::Tensor grad = at::full({4}, 3.0);
  grad[0] = -7.0;
  grad[1] = 0.25;
  clip_grad_value(NamedTensors{{"w", with_grad(grad)}, {"none", at::ones({3})}}, 0.5);
  EXPECT_EQ(grad[0].item<double>(), -0.5);
  EXPECT_EQ(grad[1].item<double>(), 0.25);
  EXPECT_EQ(grad[2].item<double>(), 0.5);
  EXPECT_THROW(clip_grad_value(NamedTensors{}, 0), UsageError);
}

/// A table of 4 rows of 2 elements, whose sparse gradient has row 1 twice: 1 and 2 add up to 3; row 3 is 4.
at::Tensor table_with_sparse_grad() {
  at::Tensor table = at::zeros({4, 2});
  const at::Tensor rows = at::sparse_coo_tensor(at::full({1, 3}, 1, at::kLong), at::ones({3, 2}), {4, 2});
  rows._indices()[0][2] = 3;
  rows._values()[1].fill_(2);
  rows._values()[2].fill_(4);
  table.mutable_grad() = rows;
  return table;
}

TEST(Clip, OfSparseGradientsAddsUpEachRowFirst) {
  const at::Tensor table = table_with_sparse_grad();
  EXPECT_DOUBLE_EQ(clip_grad_norm(NamedTensors{{"table", table}, {"none", at::ones({3})}}, 1.0), std::sqrt(50.0));
  EXPECT_NEAR(at::linalg_vector_norm(table.grad().to_dense()).item<double>(), 1.0, 1e-5);
  const at::Tensor other = table_with_sparse_grad();
  clip_grad_value(NamedTensors{{"table", other}}, 3.5);
  EXPECT_EQ(other.grad().to_dense()[1][0].item<double>(), 3.0);
  EXPECT_EQ(other.grad().to_dense()[3][1].item<double>(), 3.5);
}

TEST(Clip, TheNormOfADeviceIsTheSameButForTheOrderOfAdditions) {
  seed_all(4);
  NamedTensors parameters;
  for (const std::int64_t size : {1, 100, 5000}) {
    const at::Tensor value = at::zeros({size}).requires_grad_();
    value.mutable_grad() = at::randn({size});
    parameters.emplace_back(std::to_string(size), value);
  }
  parameters.emplace_back("without", at::zeros({3}).requires_grad_());
  const auto norm_of = [](const NamedTensors& tensors) {
    return optim::norm_of_norms(optim::device_norms(tensors)).item<double>();
  };
  EXPECT_NEAR(norm_of(parameters), grad_norm(parameters), 1e-6 * grad_norm(parameters));
  EXPECT_EQ(norm_of({{"without", at::zeros({3})}}), 0);
}

/// On a device, operations on lists of tensors give the same results as on the individual tensors, in every version of
/// libtorch.
TEST(Lists, AreScaledLimitedAveragedAndCopiedAsTheirTensors) {
  seed_all(6);
  const auto values = [] { return optim::Tensors{at::randn({3}), at::randn({2, 5})}; };
  const optim::Tensors start = values();
  const optim::Tensors other = values();
  const at::Tensor half = at::full({}, 0.5, at::kDouble);
  const auto copies = [&] { return optim::Tensors{start[0].clone(), start[1].clone()}; };
  const optim::Tensors scaled = optim::scaled_all(start, half);
  const optim::Tensors in_place = copies();
  optim::scale_all_(in_place, half);
  const optim::Tensors limited = copies();
  optim::clamp_all_(limited, 0.25);
  const optim::Tensors averaged = copies();
  optim::move_towards_all(averaged, other, 0.1);
  const optim::Tensors copied = copies();
  optim::copy_all(copied, other);
  for (std::size_t i = 0; i < start.size(); ++i) {
    EXPECT_TRUE(scaled[i].equal(start[i] * 0.5));
    EXPECT_TRUE(in_place[i].equal(start[i] * 0.5));
    EXPECT_TRUE(limited[i].equal(start[i].clamp(-0.25, 0.25)));
    EXPECT_TRUE(averaged[i].allclose(start[i] * 0.9 + other[i] * 0.1));
    EXPECT_TRUE(copied[i].equal(other[i]));
  }
  EXPECT_TRUE(optim::scaled_all({}, half).empty());
  optim::scale_all_({}, half);
  optim::move_towards_all({}, {}, 0.1);
  optim::copy_all({}, {});
}

// All ways to take a step give the same results: kernels, multi-tensor operators, and fused ones if this libtorch has
// them.

constexpr int kSteps = 10;

enum class Path { kKernel, kForeach, kFused };

TensorLists start_of(const Rule& rule) {
  seed_all(9);
  TensorLists lists;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{33}, {4, 5}, {3, 2, 3, 3}, {1}}) {
    lists.parameters.push_back(at::randn(shape));
  }
  for (const optim::StateKind& kind : rule.state()) {
    auto& list = lists.state.emplace_back();
    for (const at::Tensor& value : lists.parameters) list.push_back(at::full(value.sizes(), kind.start));
  }
  return lists;
}

void update_by_kernel(const Rule& rule, const TensorLists& lists, const StepValues& now) {
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    optim::Memory memory{.parameter = lists.parameters[i].data_ptr<float>(),
                         .grad = lists.grads[i].data_ptr<float>(),
                         .count = lists.parameters[i].numel()};
    for (std::size_t kind = 0; kind < lists.state.size(); ++kind) {
      memory.state[kind] = lists.state[kind][i].data_ptr<float>();
    }
    rule.update(memory, now);
  }
}

TensorLists updated(const Rule& rule, Path path, double weight_decay) {
  TensorLists lists = start_of(rule);
  for (int step = 1; step <= kSteps; ++step) {
    lists.grads.clear();
    for (const at::Tensor& value : lists.parameters) lists.grads.push_back(at::randn(value.sizes()));
    const auto before = lists.grads.front().clone();
    const StepValues now{.lr = 0.01 / step, .weight_decay = weight_decay, .step = step};
    if (path == Path::kKernel) update_by_kernel(rule, lists, now);
    if (path == Path::kForeach) rule.update_all(lists, now);
    if (path == Path::kFused) rule.update_fused(lists, now);
    EXPECT_TRUE(lists.grads.front().equal(before)) << "a gradient was written to";
  }
  return lists;
}

/// Returns the largest difference, relative to the magnitude of the value plus 1: float32 sums that cancel are no more
/// precise than that.
double difference(const TensorLists& a, const TensorLists& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    worst = std::max(worst, test::relative_difference(a.parameters[i], b.parameters[i], 1));
    for (std::size_t kind = 0; kind < a.state.size(); ++kind) {
      worst = std::max(worst, test::relative_difference(a.state[kind][i], b.state[kind][i], 1));
    }
  }
  return worst;
}

void expect_equal_paths(const optim::Setup& setup) {
  const at::NoGradGuard no_grad;
  const Rule& rule = *setup.groups.front().rule;
  for (const double weight_decay : {0.0, 0.1}) {
    const TensorLists kernel = updated(rule, Path::kKernel, weight_decay);
    EXPECT_GT(difference(kernel, start_of(rule)), 1e-3);
    EXPECT_LT(difference(updated(rule, Path::kForeach, weight_decay), kernel), 1e-6) << weight_decay;
    if (!rule.has_fused(c10::DeviceType::CPU)) continue;
    EXPECT_LT(difference(updated(rule, Path::kFused, weight_decay), kernel), 1e-6) << "fused, " << weight_decay;
  }
}

TEST(Paths, AgreeForAdamW) {
  expect_equal_paths(optim::setup_of(AdamWOptions{}));
  expect_equal_paths(optim::setup_of(AdamWOptions{.betas = {0.8, 0.9}, .amsgrad = true}));
}

TEST(Paths, AgreeForAdam) {
  expect_equal_paths(optim::setup_of(AdamOptions{.eps = 1e-6}));
  expect_equal_paths(optim::setup_of(AdamOptions{.betas = {0.8, 0.9}, .amsgrad = true}));
}

TEST(Paths, AgreeForSGD) {
  expect_equal_paths(optim::setup_of(SGDOptions{}));
  expect_equal_paths(optim::setup_of(SGDOptions{.momentum = 0.9, .dampening = 0.4}));
  expect_equal_paths(optim::setup_of(SGDOptions{.momentum = 0.9, .nesterov = true}));
}

TEST(Paths, AgreeForRMSprop) {
  for (const bool centered : {false, true}) {
    expect_equal_paths(optim::setup_of(RMSpropOptions{.eps = 1e-4, .centered = centered}));
    expect_equal_paths(optim::setup_of(RMSpropOptions{.eps = 1e-4, .momentum = 0.5, .centered = centered}));
  }
}

TEST(Paths, AgreeForAdagrad) {
  expect_equal_paths(optim::setup_of(AdagradOptions{.lr_decay = 0.1, .initial_accumulator_value = 0.5}));
}

TEST(Paths, AgreeForLAMBAndLARSAndLion) {
  expect_equal_paths(optim::setup_of(LAMBOptions{}));
  expect_equal_paths(optim::setup_of(LARSOptions{.trust = 0.5}));
  expect_equal_paths(optim::setup_of(LionOptions{}));
}

TEST(Paths, AgreeWhereANormIsZero) {
  const at::NoGradGuard no_grad;
  for (const optim::Setup& setup : {optim::setup_of(LAMBOptions{}), optim::setup_of(LARSOptions{})}) {
    const Rule& rule = *setup.groups.front().rule;
    TensorLists by_kernel{.parameters = {at::zeros({9})}, .grads = {at::full({9}, 0.5)}};
    TensorLists by_foreach{.parameters = {at::zeros({9})}, .grads = by_kernel.grads};
    for (std::size_t kind = 0; kind < rule.state().size(); ++kind) {
      by_kernel.state.push_back({at::zeros({9})});
      by_foreach.state.push_back({at::zeros({9})});
    }
    update_by_kernel(rule, by_kernel, {.lr = 0.1});
    rule.update_all(by_foreach, {.lr = 0.1});
    EXPECT_LT(by_kernel.parameters[0][0].item<double>(), -0.04) << setup.optimizer;
    EXPECT_LT(difference(by_kernel, by_foreach), 1e-6) << setup.optimizer;
  }
}

}  // namespace clip_test
}  // namespace lockstep
