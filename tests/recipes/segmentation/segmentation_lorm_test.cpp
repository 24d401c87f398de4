// SPDX-License-Identifier: Apache-2.0
// LoRM: what is foreground, and that the loss computed in blocks is that of the formula, with its gradients.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"
#include "segmentation/model/lorm.h"

namespace lockstep::segmentation {
namespace segmentation_lorm_test {

struct Case {
  std::int64_t pictures = 2;
  std::int64_t places = 30;
  std::int64_t channels = 16;
  double foreground = 0.5;  ///< share of the places
  at::ScalarType type = at::kDouble;
};

/// Features as after ReLU: many are 0.
LormInputs some_inputs(const Case& of) {
  torch::manual_seed(3);
  const auto options = at::TensorOptions(of.type);
  LormInputs inputs;
  inputs.foreground = at::rand({of.pictures, of.places}) < of.foreground;
  const auto rows = inputs.foreground.sum().item<std::int64_t>();
  inputs.features = at::relu(at::randn({of.pictures, of.places, of.channels}, options)).requires_grad_();
  inputs.queries = at::randn({rows, of.channels}, options).requires_grad_();
  inputs.keys = at::randn({of.pictures, of.places, of.channels}, options).requires_grad_();
  inputs.gamma = at::full({1}, 0.7, options).requires_grad_();
  return inputs;
}

struct Found {
  double loss;
  std::vector<at::Tensor> grads;
};

Found found_by(at::Tensor (*loss)(const LormInputs&), const LormInputs& inputs) {
  const at::Tensor value = loss(inputs) * 3;
  return {value.item<double>(),
          torch::autograd::grad({value}, {inputs.features, inputs.queries, inputs.keys, inputs.gamma})};
}

/// Norm-wise: the largest share by which a gradient differs.
double difference(const Found& mine, const Found& theirs) {
  double worst = std::abs(mine.loss - theirs.loss) / std::max(1e-30, std::abs(theirs.loss));
  for (std::size_t i = 0; i < theirs.grads.size(); ++i) {
    const auto norm = theirs.grads[i].to(at::kDouble).norm().item<double>();
    const auto off = (mine.grads[i].to(at::kDouble) - theirs.grads[i].to(at::kDouble)).norm().item<double>();
    worst = std::max(worst, off / std::max(1e-30, norm));
  }
  return worst;
}

TEST(SegmentationLorm, IsThatOfItsFormulaWithGradientsInFloat64) {
  for (const double foreground : {0.05, 0.5, 1.0}) {
    const LormInputs inputs = some_inputs({.foreground = foreground});
    EXPECT_LT(difference(found_by(lorm_loss, inputs), found_by(lorm_loss_plain, inputs)), 1e-12) << foreground;
  }
}

TEST(SegmentationLorm, IsThatOfItsFormulaOverSeveralBlocksInFloat32) {
  // 1024 places a block at most.
  const LormInputs inputs =
      some_inputs({.pictures = 1, .places = 1500, .channels = 8, .foreground = 0.9, .type = at::kFloat});
  EXPECT_LT(difference(found_by(lorm_loss, inputs), found_by(lorm_loss_plain, inputs)), 1e-5);
}

TEST(SegmentationLorm, UnderAutocastIsNearItsFormulaAndSumsInFloat32) {
  const LormInputs inputs = some_inputs({.places = 80, .channels = 64, .type = at::kFloat});
  const Found plain = found_by(lorm_loss_plain, inputs);
  const Autocast autocast(at::kCPU, Amp::kBf16);
  EXPECT_EQ(lorm_loss(inputs).scalar_type(), at::kFloat);
  EXPECT_LT(difference(found_by(lorm_loss, inputs), plain), 0.02);
}

/// Of every input: the slope along a direction.
TEST(SegmentationLorm, ItsGradientsAreTheSlopesOfTheLoss) {
  const LormInputs inputs = some_inputs({.places = 12, .channels = 8});
  const Found found = found_by(lorm_loss, inputs);
  const std::array<at::Tensor LormInputs::*, 4> members = {&LormInputs::features, &LormInputs::queries,
                                                           &LormInputs::keys, &LormInputs::gamma};
  const at::NoGradGuard guard;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const at::Tensor direction = at::randn_like(inputs.*members[i]) * (inputs.*members[i] != 0);
    const auto loss_at = [&](double step) {
      LormInputs moved = inputs;
      moved.*members[i] = inputs.*members[i] + direction * step;
      return 3 * lorm_loss(moved).item<double>();
    };
    const double slope = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5;
    EXPECT_NEAR((found.grads[i] * direction).sum().item<double>(), slope, 1e-6 * std::max(1.0, std::abs(slope))) << i;
  }
}

TEST(SegmentationLorm, PullsTheBackgroundToNothing) {
  LormInputs inputs = some_inputs({.foreground = 0});
  EXPECT_EQ(inputs.queries.size(0), 0);
  const at::Tensor& x = inputs.features;
  const double expected = (x.square().sum() / x.count_nonzero()).item<double>();
  EXPECT_DOUBLE_EQ(lorm_loss(inputs).item<double>(), expected);
  lorm_loss(inputs).backward();
  EXPECT_TRUE(x.grad().allclose(2 * x / x.count_nonzero()));
}

TEST(SegmentationLorm, WithoutADifferenceIsZeroAndHasGradients) {
  LormInputs inputs = some_inputs({.foreground = 0});
  inputs.features = at::zeros_like(inputs.features).requires_grad_();
  const at::Tensor loss = lorm_loss(inputs);
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  EXPECT_EQ(inputs.features.grad().abs().max().item<double>(), 0);
}

TEST(SegmentationLorm, WhatIsNoNumberStaysNone) {
  const LormInputs inputs = some_inputs({});
  {
    const at::NoGradGuard guard;
    inputs.features[0][0][0] = std::numeric_limits<double>::quiet_NaN();
  }
  EXPECT_TRUE(lorm_loss(inputs).isnan().item<bool>());
}

TEST(SegmentationLorm, RefusesASecondDerivative) {
  const LormInputs inputs = some_inputs({});
  EXPECT_THROW((void)torch::autograd::grad({lorm_loss(inputs)}, {inputs.keys}, {}, true, /*create_graph=*/true),
               UsageError);
}

TEST(SegmentationLorm, ForegroundIsWhereLabelsResizedAsNumbersAreAboveNothing) {
  at::Tensor labels = at::zeros({1, 5, 5}, at::kByte);
  labels[0][0][0] = 255;  // unlabelled
  labels[0][3][3] = 2;
  const at::Tensor before = labels.clone();
  const auto row = [&](std::int64_t size) { return foreground_of(labels, size, size).to(at::kLong).flatten(); };
  EXPECT_TRUE(row(5).reshape({5, 5}).equal(
      at::tensor({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, at::kLong)
          .reshape({5, 5})));
  EXPECT_TRUE(row(3).equal(at::zeros({9}, at::kLong)));  // rows and columns 0, 2, 4
  // Rows and columns 0, 1.33, 2.67, 4: the third one lies beside the label.
  EXPECT_TRUE(row(4).equal(at::tensor({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(labels.equal(before)) << "labels are not to change";
}

TEST(SegmentationLorm, TheModuleProjectsFeaturesAndComparesInTheForegroundOnly) {
  Lorm lorm(4);
  const at::Tensor features = at::rand({2, 4, 3, 3}).requires_grad_();
  at::Tensor labels = at::zeros({2, 3, 3}, at::kByte);
  labels[1][2][0] = 1;
  labels[1][0][0] = 255;
  const LormInputs inputs = lorm.inputs(features, labels);
  EXPECT_EQ(inputs.queries.size(0), 1);
  EXPECT_TRUE(inputs.features[1][6].equal(features[1].select(1, 2).select(1, 0)));
  const auto parameters = lorm.named_parameters();
  const at::Tensor query = parameters["query.weight"].flatten(1).matmul(inputs.features[1][6]);
  EXPECT_TRUE(inputs.queries[0].allclose(query + parameters["query.bias"], 1e-5, 1e-6));
  lorm.forward(features, labels).backward();
  for (const auto& item : parameters) EXPECT_TRUE(item.value().grad().defined()) << item.key();
}

}  // namespace segmentation_lorm_test
}  // namespace lockstep::segmentation
