// SPDX-License-Identifier: Apache-2.0
// Losses and box arithmetic against the formulas in golden/make_detection_losses.py, and where boxes are degenerate.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "detection/model/box.h"
#include "detection/model/losses.h"

namespace lockstep::detection {
namespace detection_losses_test {

constexpr std::int64_t kBoxes = 7;
constexpr std::int64_t kClasses = 5;
constexpr std::int64_t kBins = 33;
constexpr double kTolerance = 1e-5;

/// `count` numbers in [0, 1): as in make_detection_losses.py.
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

void expect_near(const at::Tensor& mine, const nlohmann::json& theirs) {
  const at::Tensor flat = mine.to(at::kDouble).contiguous().flatten();
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
  at::Tensor mine = at::tensor({0.5, 0.5, 0.0, 0.0,   // a point on a point
                                0.2, 0.2, 0.0, 0.3,   // no width
                                0.5, 0.5, -0.2, 0.1,  // its left side right of its right side
                                0.1, 0.1, 0.1, 0.1})
                        .view({4, 4})
                        .to(at::kFloat)
                        .requires_grad_();
  const at::Tensor theirs = at::tensor({0.5, 0.5, 0.0, 0.0, 0.6, 0.6, 0.1, 0.1, 0.5, 0.5, 0.2, 0.1, 0.9, 0.9, 0.0, 0.0})
                                .view({4, 4})
                                .to(at::kFloat);
  const Overlap both = overlap(to_corners(mine), to_corners(theirs));
  EXPECT_TRUE(both.iou.isfinite().all().item<bool>()) << both.iou;
  EXPECT_TRUE(both.giou.isfinite().all().item<bool>()) << both.giou;
  both.giou.sum().backward();
  EXPECT_TRUE(mine.grad().isfinite().all().item<bool>()) << mine.grad();
  const SideBins sides = side_bins(theirs, mine.detach(), bin_distances({}), 4);
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
}  // namespace lockstep::detection
