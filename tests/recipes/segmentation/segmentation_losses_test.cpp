// SPDX-License-Identifier: Apache-2.0
// The segmentation losses against their formulas.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/autocast.h"
#include "segmentation/model/lorm.h"
#include "segmentation/model/losses.h"

namespace lockstep::segmentation {
namespace segmentation_losses_test {

// The losses: each term against its formula one pixel at a time, the kernel against libtorch's operators, and cases
// without any pixels.

const Planes kAllPlanes{.pseudo_labels = true, .scribble_distances = true, .class_distances = true};

struct Case {
  std::int64_t batch = 2;
  std::int64_t classes = 5;
  std::int64_t small = 5;   ///< height and width of the logits
  std::int64_t large = 33;  ///< and of the target
  at::ScalarType type = at::kFloat;
};

struct Inputs {
  at::Tensor logits;
  at::Tensor target;
};

/// A third of the labels mean no class; a quarter of the distances are 0.
Inputs some_inputs(const Case& setting) {
  torch::manual_seed(5);
  Inputs inputs;
  inputs.logits = (at::randn({setting.batch, setting.classes, setting.small, setting.small + 2}) * 3)
                      .to(setting.type)
                      .requires_grad_();
  inputs.target = at::randint(0, 256, {setting.batch, 4, setting.large, setting.large + 9}, at::kByte);
  for (const std::int64_t plane : {0, 1}) {
    at::Tensor labels = inputs.target.select(1, plane);
    const at::Tensor none = labels < 85;
    labels.copy_(labels.remainder(setting.classes)).masked_fill_(none, kUnlabelled);
  }
  for (const std::int64_t plane : {2, 3}) {
    at::Tensor distances = inputs.target.select(1, plane);
    distances.masked_fill_(distances < 64, 0);
  }
  return inputs;
}

std::map<std::string, double> values_of(const std::vector<LossTerm>& terms) {
  std::map<std::string, double> values;
  for (const LossTerm& term : terms) values[term.name] = term.value.item<double>();
  return values;
}

/// The terms of one case from their formulas, one pixel at a time, with weight 1.
std::map<std::string, double> by_hand(const Inputs& inputs, double smoothing) {
  const at::Tensor large =
      at::upsample_bilinear2d(inputs.logits.detach().to(at::kDouble), {inputs.target.size(2), inputs.target.size(3)},
                              /*align_corners=*/true)
          .permute({0, 2, 3, 1})
          .contiguous()
          .flatten(0, 2);
  const at::Tensor planes = inputs.target.permute({1, 0, 2, 3}).contiguous().flatten(1);
  const std::int64_t classes = large.size(1);
  double sums[4] = {};
  double counts[4] = {};
  for (std::int64_t i = 0; i < large.size(0); ++i) {
    const auto* z = large.data_ptr<double>() + i * classes;
    double total = 0;
    for (std::int64_t c = 0; c < classes; ++c) total += std::exp(z[c]);
    double entropy = 0;
    double mean_log = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double log = z[c] - std::log(total);
      entropy -= std::exp(log) * log;
      mean_log += log / static_cast<double>(classes);
    }
    const auto* plane = planes.data_ptr<std::uint8_t>();
    for (int t = 0; t < 4; ++t) {
      const int value = plane[t * planes.size(1) + i];
      if (t < 2 && value != kUnlabelled) {
        const double share = t == 1 ? smoothing : 0;
        sums[t] -= (1 - share) * (z[value] - std::log(total)) + share * mean_log;
        counts[t] += 1;
      }
      if (t >= 2 && value * entropy != 0) {
        sums[t] += value / 255.0 * entropy;
        counts[t] += 1;
      }
    }
  }
  return {{"segmentation", sums[0] / counts[0]},
          {"pseudo", sums[1] / counts[1]},
          {"distance_scribble", sums[2] / counts[2]},
          {"distance_class", sums[3] / counts[3]}};
}

TEST(SegmentationLosses, EachIsThatOfItsFormulaTimesItsWeight) {
  const Inputs inputs = some_inputs({.small = 3, .large = 12});
  const auto expected = by_hand(inputs, 0.2);
  const LossOptions options{.segmentation = 1,
                            .pseudo = 0.5,
                            .distance_scribble = 2,
                            .distance_class = 3,
                            .lorm = 0.25,
                            .label_smoothing = 0.2};
  for (const auto& found :
       {losses({{"logits", inputs.logits}, {"lorm", at::full({}, 8.0)}}, inputs.target, kAllPlanes, options),
        plain_losses({{"logits", inputs.logits}, {"lorm", at::full({}, 8.0)}}, inputs.target, kAllPlanes, options)}) {
    const auto values = values_of(found);
    EXPECT_EQ(values.size(), 5U);
    EXPECT_NEAR(values.at("segmentation"), expected.at("segmentation"), 1e-5);
    EXPECT_NEAR(values.at("pseudo"), 0.5 * expected.at("pseudo"), 1e-5);
    EXPECT_NEAR(values.at("distance_scribble"), 2 * expected.at("distance_scribble"), 1e-5);
    EXPECT_NEAR(values.at("distance_class"), 3 * expected.at("distance_class"), 1e-5);
    EXPECT_EQ(values.at("lorm"), 2);
  }
}

TEST(SegmentationLosses, AWeightOfZeroLeavesATermOutAndSoDoesAMissingMap) {
  const Inputs inputs = some_inputs({});
  const auto names = [&](const Planes& planes, const LossOptions& options) {
    std::vector<std::string> found;
    const at::Tensor target = inputs.target.narrow(1, 0, planes.count());
    for (const LossTerm& term : losses({{"logits", inputs.logits}}, target, planes, options))
      found.push_back(term.name);
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(kAllPlanes, {}), (Names{"segmentation", "pseudo", "distance_scribble", "distance_class"}));
  EXPECT_EQ(names(kAllPlanes, {.pseudo = 0, .distance_scribble = 0}), (Names{"segmentation", "distance_class"}));
  EXPECT_EQ(names({}, {}), (Names{"segmentation"}));
  EXPECT_EQ(names({.class_distances = true}, {}), (Names{"segmentation", "distance_class"}));
}

struct Found {
  std::map<std::string, double> values;
  at::Tensor grad;
};

using Losses = std::vector<LossTerm> (*)(const Outputs&, const at::Tensor&, const Planes&, const LossOptions&);

/// `unequal` gives the terms different weights in the gradient.
Found found_by(Losses losses_by, const Inputs& inputs, double unequal) {
  const auto terms = losses_by({{"logits", inputs.logits}}, inputs.target, kAllPlanes,
                               {.pseudo = 0.7, .distance_scribble = 1.5, .label_smoothing = 0.1});
  at::Tensor sum = at::zeros({}, inputs.logits.options().requires_grad(false)).to(at::kFloat);
  double factor = 2;
  for (const LossTerm& term : terms) {
    sum = sum + term.value * factor;
    factor += unequal;
  }
  return {values_of(terms), torch::autograd::grad({sum}, {inputs.logits})[0]};
}

TEST(SegmentationLosses, TheKernelIsLibtorchsOperatorsInOnePass) {
  const std::vector<Case> cases = {{},
                                   {.classes = 21, .small = 9, .large = 65},
                                   {.classes = 2, .small = 16, .large = 128},
                                   {.classes = 3, .small = 8, .large = 8},
                                   {.classes = 3, .small = 1, .large = 7},
                                   {.classes = 4, .small = 40, .large = 17},
                                   {.batch = 1, .small = 4, .large = 1}};
  for (const Case& setting : cases) {
    const Inputs inputs = some_inputs(setting);
    for (const double unequal : {0.0, 0.5}) {
      const Found own = found_by(losses, inputs, unequal);
      const Found theirs = found_by(plain_losses, inputs, unequal);
      for (const auto& [name, value] : theirs.values) {
        EXPECT_NEAR(own.values.at(name), value, 1e-5 * std::max(1.0, std::abs(value))) << name << " " << setting.large;
      }
      EXPECT_EQ(own.grad.sizes(), theirs.grad.sizes());
      EXPECT_LT((own.grad - theirs.grad).norm().item<double>(), 2e-6 * theirs.grad.norm().item<double>())
          << setting.large;
    }
  }
}

TEST(SegmentationLosses, TakeBfloat16AndChannelsLastAndGiveTheGradientInTheirType) {
  Inputs inputs = some_inputs({.classes = 8, .type = at::kBFloat16});
  const Found plain = found_by(plain_losses, inputs, 0);
  inputs.logits = inputs.logits.detach().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const Found own = found_by(losses, inputs, 0);
  EXPECT_EQ(own.grad.scalar_type(), at::kBFloat16);
  EXPECT_NEAR(own.values.at("pseudo"), plain.values.at("pseudo"), 1e-4);
  EXPECT_LT((own.grad - plain.grad).to(at::kFloat).norm().item<double>(),
            0.01 * plain.grad.to(at::kFloat).norm().item<double>());
}

TEST(SegmentationLosses, HaveTheSameBitsOnAnyNumberOfThreads) {
  const Inputs inputs = some_inputs({.classes = 21, .small = 20, .large = 150});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Found one = found_by(losses, inputs, 0);
  at::set_num_threads(2);
  const Found two = found_by(losses, inputs, 0);
  at::set_num_threads(before);
  EXPECT_EQ(one.values, two.values);
  EXPECT_TRUE(one.grad.equal(two.grad));
}

TEST(SegmentationLosses, WithoutAPixelThatCountsATermIsZeroAndStillInTheGraph) {
  Inputs inputs = some_inputs({});
  inputs.target.narrow(1, 0, 2).fill_(kUnlabelled);
  inputs.target.narrow(1, 2, 2).fill_(0);
  for (const Losses losses_by : {Losses{losses}, Losses{plain_losses}}) {
    const Found found = found_by(losses_by, inputs, 0.5);
    for (const auto& [name, value] : found.values) EXPECT_EQ(value, 0) << name;
    EXPECT_EQ(found.values.size(), 4U);
    EXPECT_EQ(found.grad.abs().max().item<double>(), 0);
  }
}

TEST(SegmentationLosses, APixelWhoseClassIsSureCountsInNoDistanceTerm) {
  Inputs inputs = some_inputs({.classes = 2});
  const at::NoGradGuard guard;
  inputs.logits.fill_(-200);
  inputs.logits.select(1, 1).fill_(200);
  inputs.logits.select(3, 0).fill_(0);  // the left side of each image is uncertain
  inputs.target.select(1, kAllPlanes.class_distance()).fill_(255);
  const auto own = values_of(losses({{"logits", inputs.logits}}, inputs.target, kAllPlanes, {}));
  const auto plain = values_of(plain_losses({{"logits", inputs.logits}}, inputs.target, kAllPlanes, {}));
  // In 2 of 42 columns, the entropy is above 0 in float32; in the next ones, that depends on underflow.
  EXPECT_NEAR(own.at("distance_class"), plain.at("distance_class"), 0.1 * plain.at("distance_class"));
  EXPECT_GT(own.at("distance_class"), 5 * std::log(2) / 42);
}

TEST(SegmentationLosses, WhatIsNoNumberStaysNone) {
  Inputs inputs = some_inputs({});
  {
    const at::NoGradGuard guard;
    inputs.logits[0][1][2][2] = std::numeric_limits<float>::quiet_NaN();
  }
  inputs.target.narrow(1, 0, 2).fill_(0);  // a class other than the NaN's
  for (const auto& [name, value] : values_of(losses({{"logits", inputs.logits}}, inputs.target, kAllPlanes, {}))) {
    EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST(SegmentationLosses, ALabelThatIsNoClassIsAnErrorThatSaysWhere) {
  Inputs inputs = some_inputs({});
  inputs.target[1][1][4][6] = 5;
  try {
    (void)losses({{"logits", inputs.logits}}, inputs.target, kAllPlanes, {});
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("image 1"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("class 5 at row 4, column 6, but there are 5 classes"));
  }
}

TEST(SegmentationLosses, RefuseATargetWithOtherMapsAndASecondDerivative) {
  const Inputs inputs = some_inputs({});
  EXPECT_THROW((void)losses({{"logits", inputs.logits}}, inputs.target, {}, {}), UsageError);
  const at::Tensor loss = losses({{"logits", inputs.logits}}, inputs.target, kAllPlanes, {})[0].value;
  EXPECT_THROW((void)torch::autograd::grad({loss}, {inputs.logits}, {}, true, /*create_graph=*/true), UsageError);
}

}  // namespace segmentation_losses_test

namespace segmentation_lorm_test {

// LoRM: the foreground, and the loss and gradients computed in blocks, against the formula.

struct Case {
  std::int64_t pictures = 2;
  std::int64_t places = 30;
  std::int64_t channels = 16;
  double foreground = 0.5;  ///< fraction of the positions
  at::ScalarType type = at::kDouble;
};

/// Features as after ReLU: many are 0.
LormInputs some_inputs(const Case& setting) {
  torch::manual_seed(3);
  const auto options = at::TensorOptions(setting.type);
  LormInputs inputs;
  inputs.foreground = at::rand({setting.pictures, setting.places}) < setting.foreground;
  const auto rows = inputs.foreground.sum().item<std::int64_t>();
  inputs.features = at::relu(at::randn({setting.pictures, setting.places, setting.channels}, options)).requires_grad_();
  inputs.queries = at::randn({rows, setting.channels}, options).requires_grad_();
  inputs.keys = at::randn({setting.pictures, setting.places, setting.channels}, options).requires_grad_();
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

/// The largest relative difference of any gradient, by norm.
double difference(const Found& own, const Found& theirs) {
  double worst = std::abs(own.loss - theirs.loss) / std::max(1e-30, std::abs(theirs.loss));
  for (std::size_t i = 0; i < theirs.grads.size(); ++i) {
    const auto norm = theirs.grads[i].to(at::kDouble).norm().item<double>();
    const auto off = (own.grads[i].to(at::kDouble) - theirs.grads[i].to(at::kDouble)).norm().item<double>();
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
  // At most 1024 positions per block.
  const LormInputs inputs =
      some_inputs({.pictures = 1, .places = 1500, .channels = 8, .foreground = 0.9, .type = at::kFloat});
  EXPECT_LT(difference(found_by(lorm_loss, inputs), found_by(lorm_loss_plain, inputs)), 1e-5);
}

/// On a device, nothing waits for the number of foreground positions, so all positions are queried.
LormInputs with_all_queries(LormInputs inputs) {
  const at::NoGradGuard guard;
  at::Tensor all = at::randn_like(inputs.keys);
  all.masked_scatter_(inputs.foreground.unsqueeze(-1), inputs.queries);
  inputs.queries = all.requires_grad_();
  return inputs;
}

TEST(SegmentationLorm, WithTheQueriesOfAllPlacesIsThatOfItsFormula) {
  for (const double foreground : {0.0, 0.05, 0.5, 1.0}) {
    const LormInputs few = some_inputs({.foreground = foreground});
    const LormInputs all = with_all_queries(few);
    EXPECT_LT(difference(found_by(lorm_loss, all), found_by(lorm_loss_plain, all)), 1e-12) << foreground;
    EXPECT_NEAR(found_by(lorm_loss, all).loss, found_by(lorm_loss, few).loss, 1e-12) << foreground;
  }
}

TEST(SegmentationLorm, WithTheQueriesOfAllPlacesIsThatOfItsFormulaOverTwoBlocks) {
  // With this many images, a block holds 64 positions of each.
  const LormInputs all =
      with_all_queries(some_inputs({.pictures = 4096, .places = 70, .channels = 2, .type = at::kFloat}));
  EXPECT_LT(difference(found_by(lorm_loss, all), found_by(lorm_loss_plain, all)), 1e-5);
}

TEST(SegmentationLorm, UnderAutocastIsNearItsFormulaAndSumsInFloat32) {
  const LormInputs inputs = some_inputs({.places = 80, .channels = 64, .type = at::kFloat});
  const Found plain = found_by(lorm_loss_plain, inputs);
  const Autocast autocast(at::kCPU, Amp::kBf16);
  EXPECT_EQ(lorm_loss(inputs).scalar_type(), at::kFloat);
  EXPECT_LT(difference(found_by(lorm_loss, inputs), plain), 0.02);
}

/// For every input, the slope along one direction.
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
  // Rows and columns 0, 1.33, 2.67, 4: the third one misses the label.
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
