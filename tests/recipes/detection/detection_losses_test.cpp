// SPDX-License-Identifier: Apache-2.0
// The detection losses, individually and together.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "detection/model/box.h"
#include "detection/model/criterion.h"
#include "detection/model/losses.h"
#include "detection/model/model.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/train/prepare.h"

namespace lockstep::detection {
namespace detection_losses_test {

// Losses and box arithmetic against the formulas in golden/make_detection_losses.py, also for degenerate boxes.

constexpr std::int64_t kBoxes = 7;
constexpr std::int64_t kClasses = 5;
constexpr std::int64_t kBins = 33;
constexpr double kTolerance = 1e-5;

/// `count` numbers in [0, 1), as in make_detection_losses.py.
at::Tensor fractions(std::int64_t count, std::int64_t salt) {
  constexpr std::int64_t kLow = 0xFFFFFFFF;
  const at::Tensor index = at::arange(count, at::kLong);
  const at::Tensor hashed = at::bitwise_and(index * 2654435761 + (salt * 40503 + 12345), kLow);
  const at::Tensor mixed =
      at::bitwise_and(at::bitwise_xor(hashed, at::bitwise_right_shift(hashed, 15)) * 2246822519, kLow);
  return at::bitwise_right_shift(mixed, 8).to(at::kDouble) / (1 << 24);
}

at::Tensor boxes(std::int64_t salt) {
  const at::Tensor f = fractions(kBoxes * 4, salt).view({kBoxes, 4});
  return at::cat({0.3 + 0.3 * f.narrow(1, 0, 2), 0.05 + 0.4 * f.narrow(1, 2, 2)}, 1).to(at::kFloat);
}

at::Tensor targets() {
  const at::Tensor all = boxes(11);
  all[5][2] = 0.9;
  return all;
}

at::Tensor corner_logits(std::int64_t salt) {
  return ((fractions(kBoxes * 4 * kBins, salt) - 0.5) * 8).view({kBoxes, 4 * kBins}).to(at::kFloat);
}

nlohmann::json golden() {
  std::ifstream file(std::string(LOCKSTEP_TEST_SOURCE_DIR) + "/tests/recipes/golden/detection_losses.json");
  return nlohmann::json::parse(file);
}

void expect_near(const at::Tensor& own, const nlohmann::json& theirs) {
  const at::Tensor flat = own.to(at::kDouble).contiguous().flatten();
  ASSERT_EQ(flat.numel(), static_cast<std::int64_t>(theirs.size()));
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double expected = theirs[static_cast<std::size_t>(i)].get<double>();
    EXPECT_NEAR(flat[i].item<double>(), expected, kTolerance * std::max(1.0, std::abs(expected))) << "element " << i;
  }
}

at::Tensor class_losses(const ClassLossOptions& options) {
  const at::Tensor logits = ((fractions(kBoxes * kClasses, 1) - 0.5) * 6).view({kBoxes, kClasses}).to(at::kFloat);
  const at::Tensor iou = fractions(kBoxes, 2);
  const at::Tensor labels = (fractions(kBoxes, 3) * static_cast<double>(kClasses)).to(at::kLong);
  const at::Tensor quality = at::zeros_like(logits);
  const at::Tensor positive = at::zeros_like(logits);
  for (std::int64_t i = 0; i < kBoxes; ++i) {
    if (i == 2) continue;
    const auto label = labels[i].item<std::int64_t>();
    quality[i][label] = iou[i].item<double>();
    positive[i][label] = 1;
  }
  return class_loss(logits, quality, positive, options);
}

TEST(DetectionLosses, VarifocalLossIsThatOfItsFormula) {
  expect_near(class_losses({.matchability = false, .alpha = 0.75, .gamma = 2}), golden()["vfl"]);
}

TEST(DetectionLosses, MatchabilityAwareLossIsThatOfItsFormula) {
  expect_near(class_losses({.matchability = true, .gamma = 1.5}), golden()["mal"]);
}

TEST(DetectionLosses, TheDistanceOfBoxesIsThatOfItsFormula) {
  expect_near(bbox_loss(boxes(10), targets()), golden()["bbox"]);
}

TEST(DetectionLosses, OverlapsAreThoseOfTheirFormulas) {
  const Overlap both = overlap(to_corners(boxes(10)), to_corners(targets()));
  expect_near(both.iou, golden()["iou"]);
  expect_near(both.giou, golden()["giou"]);
}

TEST(DetectionLosses, BinsAndTheBoxesOfDistributionsAreThoseOfTheirFormulas) {
  const at::Tensor bins = bin_distances({});
  expect_near(bins, golden()["weighting"]);
  expect_near(moved(boxes(10), expected_distances(corner_logits(20), bins), 4), golden()["decoded"]);
}

TEST(DetectionLosses, FineGrainedLocalizationIsThatOfItsFormulaBeyondTheLastBinToo) {
  const SideBins sides = side_bins(boxes(10), targets(), bin_distances({}), 4);
  const at::Tensor iou = overlap(to_corners(boxes(10)), to_corners(targets())).iou;
  expect_near(fgl_loss(corner_logits(20), sides, iou), golden()["fgl"]);
}

TEST(DetectionLosses, DistillationOfDistributionsIsThatOfItsFormula) {
  expect_near(ddf_loss(corner_logits(20), corner_logits(21), 5), golden()["ddf"]);
}

TEST(DetectionLosses, ABoxAndItsSidesComeBackFromTheBinsThatTheyLieBetween) {
  const at::Tensor bins = bin_distances({});
  const at::Tensor refs = boxes(10);
  const at::Tensor near = refs + (at::rand({kBoxes, 4}) - 0.5) * 0.02;
  const SideBins sides = side_bins(refs, near, bins, 4);
  const at::Tensor distances =
      bins.index({sides.left}) * sides.left_share + bins.index({sides.left + 1}) * sides.right_share;
  EXPECT_TRUE(moved(refs, distances, 4).allclose(near, 1e-4, 1e-5));
}

TEST(DetectionLosses, BoxesWithoutAreaOrInsideOutHaveFiniteOverlapsAndGradients) {
  at::Tensor own = at::tensor({0.5, 0.5, 0.0, 0.0,   // a point on top of a point
                               0.2, 0.2, 0.0, 0.3,   // no width
                               0.5, 0.5, -0.2, 0.1,  // its left side is right of its right side
                               0.1, 0.1, 0.1, 0.1})
                       .view({4, 4})
                       .to(at::kFloat)
                       .requires_grad_();
  const at::Tensor theirs = at::tensor({0.5, 0.5, 0.0, 0.0, 0.6, 0.6, 0.1, 0.1, 0.5, 0.5, 0.2, 0.1, 0.9, 0.9, 0.0, 0.0})
                                .view({4, 4})
                                .to(at::kFloat);
  const Overlap both = overlap(to_corners(own), to_corners(theirs));
  EXPECT_TRUE(both.iou.isfinite().all().item<bool>()) << both.iou;
  EXPECT_TRUE(both.giou.isfinite().all().item<bool>()) << both.giou;
  both.giou.sum().backward();
  EXPECT_TRUE(own.grad().isfinite().all().item<bool>()) << own.grad();
  const SideBins sides = side_bins(theirs, own.detach(), bin_distances({}), 4);
  EXPECT_TRUE(sides.left_share.isfinite().all().item<bool>());
}

TEST(DetectionLosses, WhatIsNoNumberStaysNone) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor bad = at::tensor({none, 0.5, 0.1, 0.1}).view({1, 4}).to(at::kFloat);
  EXPECT_TRUE(bbox_loss(bad, boxes(10).narrow(0, 0, 1)).isnan().all().item<bool>());
  EXPECT_TRUE(overlap(to_corners(bad), to_corners(boxes(10).narrow(0, 0, 1))).giou.isnan().all().item<bool>());
  const at::Tensor logits = at::tensor({none, 0.0}).to(at::kFloat);
  EXPECT_TRUE(class_loss(logits, at::zeros({2}), at::zeros({2}), {}).sum().isnan().item<bool>());
}

}  // namespace detection_losses_test

namespace detection_criterion_test {

// The whole loss: faults that make other detectors hang or silently go wrong on several processes must not occur.

ModelOptions tiny() {
  return {.classes = 3,
          .stem = {8, 16},
          .stages = {{.middle = 8, .out = 16, .layers = 2},
                     {.middle = 8, .out = 32, .layers = 2},
                     {.middle = 16, .out = 32, .layers = 2, .light = true}},
          .hidden = 32,
          .heads = 2,
          .encoder_feedforward = 32,
          .decoder_layers = 3,
          .decoder_feedforward = 32,
          .queries = 20,
          .denoising = 12};
}

Detections objects(std::int64_t count) {
  Detections some;
  some.boxes = at::rand({count, 4}) * 0.3 + 0.3;
  some.labels = at::randint(3, {count}, at::kLong);
  return some;
}

/// A batch's results, as seen by the rest of a run.
struct Seen {
  std::vector<std::string> names;
  std::vector<std::int64_t> reduced;  ///< sizes of sums over replicas
  double loss = 0;
};

Seen train_on(Detector& net, const Targets& targets) {
  Seen seen;
  for (at::Tensor& parameter : net.parameters()) parameter.mutable_grad() = at::Tensor();
  const auto images = static_cast<std::int64_t>(targets.size());
  const auto terms = criterion(net.forward(at::rand({images, 3, 64, 64}), &targets), targets, {},
                               [&](const at::Tensor& counts) { seen.reduced.push_back(counts.numel()); });
  for (const LossTerm& term : terms) {
    seen.names.push_back(term.name);
    EXPECT_TRUE(term.value.isfinite().item<bool>()) << term.name;
  }
  const at::Tensor loss = sum(terms);
  loss.backward();
  seen.loss = loss.item<double>();
  for (const auto& item : net.named_parameters()) {
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
    if (!item.value().grad().defined()) continue;
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
  return seen;
}

TEST(DetectionCriterion, ABatchWithoutABoxMakesTheSameCallsAndGivesEveryParameterAGradient) {
  Detector net(tiny());
  const Seen full = train_on(net, {objects(3), objects(6)});
  const Seen empty = train_on(net, {objects(0), objects(0)});
  EXPECT_EQ(empty.names, full.names);
  EXPECT_EQ(empty.reduced, full.reduced);
  EXPECT_EQ(full.reduced, (std::vector<std::int64_t>{5}));
  EXPECT_GT(full.loss, empty.loss);
}

TEST(DetectionCriterion, AnImageWithoutBoxesAmongOthersAndABatchOfOneTrain) {
  Detector net(tiny());
  const Seen full = train_on(net, {objects(3), objects(6)});
  EXPECT_EQ(train_on(net, {objects(0), objects(6), objects(1)}).names, full.names);
  EXPECT_EQ(train_on(net, {objects(4)}).names, full.names);
}

TEST(DetectionCriterion, MoreBoxesThanQueriesTrain) {
  Detector net(tiny());
  train_on(net, {objects(33), objects(2)});
}

TEST(DetectionCriterion, BoxesWithoutAreaAndAtTheBorderHaveFiniteLossesAndGradients) {
  Detector net(tiny());
  Targets targets = {objects(4)};
  targets[0].boxes = at::tensor({0.5, 0.5, 0.0, 0.2,  //
                                 0.5, 0.5, 0.0, 0.0,  //
                                 0.0, 0.0, 0.1, 0.1,  //
                                 0.5, 0.5, 1.0, 1.0})
                         .view({4, 4})
                         .to(at::kFloat);
  train_on(net, targets);
}

TEST(DetectionCriterion, HasTheTermsOfTheOriginByName) {
  Detector net(tiny());
  const std::vector<std::string> names = train_on(net, {objects(3)}).names;
  const std::set<std::string> all(names.begin(), names.end());
  EXPECT_EQ(all.size(), names.size());
  const std::set<std::string> expected = {"mal",        "bbox",       "giou",       "fgl",                       //
                                          "mal_aux_0",  "bbox_aux_0", "giou_aux_0", "fgl_aux_0",   "ddf_aux_0",  //
                                          "mal_aux_1",  "bbox_aux_1", "giou_aux_1", "fgl_aux_1",   "ddf_aux_1",  //
                                          "mal_pre",    "bbox_pre",   "giou_pre",   "mal_enc_0",   "bbox_enc_0",
                                          "giou_enc_0",                                                         //
                                          "mal_dn_0",   "bbox_dn_0",  "giou_dn_0",  "fgl_dn_0",    "ddf_dn_0",  //
                                          "mal_dn_1",   "bbox_dn_1",  "giou_dn_1",  "fgl_dn_1",    "ddf_dn_1",  //
                                          "mal_dn_2",   "bbox_dn_2",  "giou_dn_2",  "fgl_dn_2",    "mal_dense",
                                          "bbox_dense", "giou_dense", "mal_dn_pre", "bbox_dn_pre", "giou_dn_pre"};
  EXPECT_EQ(all, expected);
}

TEST(DetectionCriterion, APredictionThatIsNotFiniteIsAnErrorThatNamesIt) {
  Detector net(tiny());
  const Targets targets = {objects(2)};
  Outputs outputs = net.forward(at::rand({1, 3, 64, 64}), &targets);
  at::Tensor logits = outputs.at("pre_logits").detach().clone();
  logits[0][0][5][1] = std::numeric_limits<float>::infinity();
  outputs["pre_logits"] = logits;
  try {
    static_cast<void>(criterion(outputs, targets, {}));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("predictions_pre logits"), std::string::npos) << error.message();
  }
}

TEST(DetectionCriterion, ANumberThatIsNoneInDenoisingReachesTheLoss) {
  Detector net(tiny());
  const Targets targets = {objects(2)};
  Outputs outputs = net.forward(at::rand({1, 3, 64, 64}), &targets);
  outputs["dn_logits"] = outputs.at("dn_logits") * std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(sum(criterion(outputs, targets, {})).isnan().item<bool>());
}

/// One layer and one query for one object, so that every term can be computed by hand.
TEST(DetectionCriterion, DividesByTheMeanNumberOfBoxesOverReplicas) {
  Outputs outputs;
  outputs["logits"] = at::tensor({2.0, -1.0, 0.5, -3.0}).view({1, 1, 2, 2}).to(at::kFloat);
  outputs["boxes"] = at::tensor({0.5, 0.5, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1}).view({1, 1, 2, 4}).to(at::kFloat);
  outputs["corners"] = at::zeros({1, 1, 2, 4 * 33});
  outputs["refs"] = outputs.at("boxes")[0];
  Detections one;
  one.boxes = at::tensor({0.5, 0.5, 0.2, 0.1}).view({1, 4}).to(at::kFloat);
  one.labels = at::zeros({1}, at::kLong);
  // Another replica has 5 boxes: 3 is the mean.
  const auto terms = criterion(outputs, {one}, {}, [](const at::Tensor& counts) {
    EXPECT_TRUE(counts.equal(at::tensor({1, 1, 0, 0, 1}).to(at::kFloat)));
    counts.copy_(at::tensor({6, 6, 0, 0, 2}).to(at::kFloat));
  });
  const auto value = [&](const std::string& name) {
    for (const LossTerm& term : terms) {
      if (term.name == name) return term.value.item<double>();
    }
    ADD_FAILURE() << "no " << name;
    return 0.0;
  };
  constexpr double kMean = 3;
  constexpr double kIou = 0.5;
  EXPECT_NEAR(value("bbox"), 5 * 0.1 / kMean, 1e-6);
  EXPECT_NEAR(value("giou"), 2 * (1 - kIou) / kMean, 1e-5);
  const at::Tensor quality = at::zeros({2, 2});
  quality[0][0] = kIou;
  const at::Tensor positive = at::zeros({2, 2});
  positive[0][0] = 1;
  EXPECT_NEAR(value("mal"), class_loss(outputs.at("logits")[0][0], quality, positive, {}).sum().item<double>() / kMean,
              1e-5);
  // All bins are equal, so log 33 for each of the four sides.
  EXPECT_NEAR(value("fgl"), 0.15 * 4 * std::log(33.0) * kIou / kMean, 1e-5);
  EXPECT_EQ(terms.size(), 4U);
}

TEST(DetectionCriterion, BoxesLearnFromThePairsOfAllLayersAndClassesFromTheirOwn) {
  Outputs outputs;
  // Two layers that would choose different queries for the only object.
  outputs["logits"] = at::tensor({3.0, -3.0, -3.0, 3.0}).view({2, 1, 2, 1}).to(at::kFloat).requires_grad_();
  outputs["boxes"] = at::tensor({0.4, 0.4, 0.2, 0.2, 0.6, 0.6, 0.2, 0.2, 0.4, 0.4, 0.2, 0.2, 0.6, 0.6, 0.2, 0.2})
                         .view({2, 1, 2, 4})
                         .to(at::kFloat)
                         .requires_grad_();
  outputs["corners"] = at::zeros({2, 1, 2, 4 * 33});
  outputs["refs"] = outputs.at("boxes").detach()[0];
  Detections one;
  one.boxes = at::tensor({0.5, 0.5, 0.2, 0.2}).view({1, 4}).to(at::kFloat);
  one.labels = at::zeros({1}, at::kLong);
  const auto learn = [&](bool united) {
    outputs.at("boxes").mutable_grad() = at::Tensor();
    sum(criterion(outputs, {one}, {.union_matching = united})).backward();
    return (outputs.at("boxes").grad().abs().sum(-1) > 0).flatten();
  };
  EXPECT_TRUE(learn(true).all().item<bool>());
  EXPECT_TRUE(learn(false).equal(at::tensor({1, 0, 0, 1}).to(at::kBool)));
}

/// An image with room for two groups of its single object must not count twice as much as one with room for one group.
TEST(DetectionCriterion, GroupsOfDenoisingShareTheWeightOfTheirObjects) {
  const auto outputs_of = [](std::int64_t groups) {
    const auto repeated = [&](const at::Tensor& group, std::int64_t last) {
      return group.view({1, 1, 2, last}).to(at::kFloat).repeat({1, 1, groups, 1});
    };
    Outputs outputs;
    for (const std::string prefix : {"", "dn_"}) {
      outputs[prefix + "logits"] = repeated(at::tensor({2.0, -1.0}), 1);
      outputs[prefix + "boxes"] = repeated(at::tensor({0.5, 0.5, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1}), 4);
      outputs[prefix + "refs"] = outputs.at(prefix + "boxes")[0];
      outputs[prefix + "corners"] = at::zeros({1, 1, 2 * groups, 4 * 33});
    }
    outputs["dn_index"] = at::tensor({0, -1}, at::kLong).view({1, 2}).repeat({1, groups});
    outputs["dn_weight"] = at::full({1, 2 * groups}, 1.0 / static_cast<double>(groups), at::kFloat);
    return outputs;
  };
  Detections one;
  one.boxes = at::tensor({0.5, 0.5, 0.2, 0.1}).view({1, 4}).to(at::kFloat);
  one.labels = at::zeros({1}, at::kLong);
  const auto terms = criterion(outputs_of(1), {one}, {});
  const auto twice = criterion(outputs_of(2), {one}, {});
  std::size_t compared = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].name.find("_dn_") == std::string::npos) continue;
    EXPECT_NEAR(twice[i].value.item<double>(), terms[i].value.item<double>(), 1e-6) << terms[i].name;
    ++compared;
  }
  EXPECT_EQ(compared, 4U);
}

TEST(DetectionCriterion, RefusesALossThatItDoesNotKnow) {
  EXPECT_THROW(static_cast<void>(criterion({}, {}, {.classification = "focal"})), UsageError);
}

TEST(DetectionCriterion, ATinyNetworkLearnsABatchByHeart) {
  at::set_num_threads(1);
  at::manual_seed(11);
  ModelOptions options = tiny();
  options.denoising = 8;
  Detector net(options);
  use_channels_last(net);
  nn::optimize(net);
  // One bright rectangle per image, each in its own colour.
  at::Tensor images = at::rand({4, 3, 64, 64}) * 0.2;
  Targets targets;
  for (std::int64_t i = 0; i < 4; ++i) {
    images[i][i % 3].narrow(0, 8 * i, 24).narrow(1, 40 - 8 * i, 16) = 1;
    Detections one;
    one.boxes =
        at::tensor({(48.0 - 8.0 * static_cast<double>(i)) / 64, (8.0 * static_cast<double>(i) + 12) / 64, 0.25, 0.375})
            .view({1, 4})
            .to(at::kFloat);
    one.labels = at::full({1}, i % 3, at::kLong);
    targets.push_back(one);
  }
  images = to_channels_last(images);
  AdamW optimizer(net, {.lr = 2e-3});
  for (int step = 0; step < 120; ++step) {
    const at::Tensor loss = sum(criterion(net.forward(images, &targets), targets, {}));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  // Decodes in training mode, because batch norm's running means have not moved far.
  const std::vector<Found> found = decode(net.forward(images, nullptr), 1);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i].labels[0].item<std::int64_t>(), static_cast<std::int64_t>(i % 3)) << "picture " << i;
    const at::Tensor iou = overlap(to_corners(found[i].boxes), to_corners(targets[i].boxes)).iou;
    EXPECT_GT(iou.item<double>(), 0.6) << "picture " << i;
  }
}

}  // namespace detection_criterion_test
}  // namespace lockstep::detection
