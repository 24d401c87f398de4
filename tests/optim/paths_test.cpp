// SPDX-License-Identifier: Apache-2.0
// The ways a step can take give the same: kernels, multi-tensor operators, and fused ones where this libtorch has them.
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/lars.h"
#include "lockstep/optim/lion.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/random.h"
#include "optim/setups.h"
#include "tensor/golden.h"

namespace lockstep {
namespace paths_test {

using optim::Rule;
using optim::StepValues;
using optim::TensorLists;

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

/// Relative to 1 and more: float32 sums that cancel keep no more.
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

}  // namespace paths_test
}  // namespace lockstep
