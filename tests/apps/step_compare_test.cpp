// SPDX-License-Identifier: Apache-2.0
// Comparing two records of a step, and jumps in a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/temp_dir.h"
#include "worker/explain/compare.h"
#include "worker/explain/spikes.h"
#include "worker/median.h"

namespace lockstep::test {
namespace step_compare_test {

using ::testing::ElementsAre;
using ::testing::Pair;
using worker::first_difference;
using worker::Part;
using worker::StepRecord;

/// A step of two replicas: a convolution, a layer whose result has no digest, and the backward pass.
StepRecord step() {
  StepRecord record{.step = 7, .lr = 0.1, .loss = 1.5, .weights = 11};
  for (int replica = 0; replica < 2; ++replica) {
    record.batches.push_back(
        {.replica = replica,
         .data = 21,
         .target = 22,
         .losses = {1.5},
         .samples = {{.index = 4, .name = "a.png", .digest = 31}, {.index = 9, .name = "b.png", .digest = 32}},
         .values = {{.name = "aten::convolution", .layer = "stem", .digest = 41},
                    {.name = "aten::mkldnn", .depth = 1},
                    {.name = "aten::mkldnn", .depth = 1, .end = true, .digest = 42},
                    {.name = "aten::convolution", .layer = "stem", .end = true, .digest = 42},
                    {.name = "lockstep::linear", .layer = "head", .digest = 43},
                    {.name = "lockstep::linear", .layer = "head", .end = true},
                    {.name = "aten::nll_loss", .digest = 44},
                    {.name = "aten::nll_loss", .end = true, .digest = 45},
                    {.name = "NllLossBackward0", .backward = true, .digest = 46},
                    {.name = "NllLossBackward0", .backward = true, .end = true}}});
  }
  record.gradients = {{.name = "stem.weight", .digest = 51, .norm = 1},
                      {.name = "head.weight", .digest = 52, .norm = 2}};
  return record;
}

TEST(FirstDifference, EqualStepsHaveNone) { EXPECT_FALSE(first_difference(step(), step()).any()); }

TEST(FirstDifference, AViewMoreOrWorkBehindTheBackwardIsNone) {
  StepRecord other = step();
  auto& values = other.batches[1].values;
  values.push_back({.name = "aten::view", .layer = "stem"});
  values.push_back({.name = "aten::view", .layer = "stem", .end = true});
  EXPECT_FALSE(first_difference(step(), other).any());
  values.push_back({.name = "aten::copy_", .end = true, .digest = 5});
  EXPECT_FALSE(first_difference(step(), other).any()) << "it comes behind the backward";
  values.push_back({.name = "AddBackward0", .backward = true, .end = true, .digest = 5});
  const auto found = first_difference(step(), other);
  EXPECT_EQ(found.b, "aten::copy_");
  EXPECT_EQ(found.replica, 1);
}

TEST(FirstDifference, OtherWeightsOfTheSameGradientsAreTheUpdates) {
  StepRecord one = step();
  StepRecord other = step();
  one.digest = {.loss = 1, .gradients = 2, .weights = 3};
  other.digest = {.loss = 1, .gradients = 2, .weights = 4};
  const auto found = first_difference(one, other);
  EXPECT_EQ(found.part, Part::kUpdate);
  EXPECT_EQ(found.a, "the optimizer's state or kernel");
  other.gradients[1].digest = 99;
  EXPECT_EQ(first_difference(one, other).part, Part::kGradients);
}

TEST(FirstDifference, WeightsBeforeTheStepComeFirst) {
  StepRecord other = step();
  other.weights = 12;
  other.batches[0].data = 0;
  EXPECT_EQ(first_difference(step(), other).part, Part::kWeights);
}

TEST(FirstDifference, AChangedFileIsNamed) {
  StepRecord other = step();
  other.batches[1].data = 99;
  other.batches[1].samples[1].digest = 99;
  const auto found = first_difference(step(), other);
  EXPECT_EQ(found.part, Part::kSamples);
  EXPECT_EQ(found.replica, 1);
  EXPECT_THAT(found.changed, ElementsAre(Pair("b.png", "b.png")));
}

TEST(FirstDifference, AnotherFolderIsNoDifference) {
  StepRecord other = step();
  for (auto& batch : other.batches) {
    for (auto& sample : batch.samples) sample.name = "copy/" + sample.name;
  }
  EXPECT_FALSE(first_difference(step(), other).any());
}

TEST(FirstDifference, OtherSamplesAreToldFromChangedOnes) {
  StepRecord other = step();
  other.batches[0].samples[0] = {.index = 5, .name = "c.png", .digest = 31};
  const auto found = first_difference(step(), other);
  EXPECT_EQ(found.part, Part::kSamples);
  EXPECT_EQ(found.a, "a.png");
  EXPECT_EQ(found.b, "c.png");
}

TEST(FirstDifference, TheInnermostOperatorWithItsLayer) {
  StepRecord other = step();
  other.batches[1].values[2].digest = other.batches[1].values[3].digest = 99;
  const auto found = first_difference(step(), other);
  EXPECT_EQ(found.part, Part::kForward);
  EXPECT_EQ(found.replica, 1);
  EXPECT_EQ(found.layer, "stem");
  EXPECT_EQ(found.a, "aten::mkldnn");
}

TEST(FirstDifference, AnotherKernelOfALayer) {
  StepRecord other = step();
  other.batches[0].values[1].name = other.batches[0].values[2].name = "lockstep::winograd";
  const auto found = first_difference(step(), other);
  EXPECT_EQ(found.layer, "stem");
  EXPECT_EQ(found.a, "aten::mkldnn");
  EXPECT_EQ(found.b, "lockstep::winograd");
}

TEST(FirstDifference, WhatAnOperatorReadsWasMadeByTheLayerBefore) {
  StepRecord other = step();
  other.batches[0].values[6].digest = 99;
  const auto found = first_difference(step(), other);
  EXPECT_EQ(found.part, Part::kForward);
  EXPECT_EQ(found.a, "lockstep::linear");
  EXPECT_EQ(found.layer, "head");
}

TEST(FirstDifference, TheBackwardIsOne) {
  StepRecord other = step();
  other.batches[0].values[8].digest = 99;
  EXPECT_EQ(first_difference(step(), other).part, Part::kBackward);
}

TEST(FirstDifference, GradientsAndThenTheUpdate) {
  StepRecord other = step();
  other.lr = 0.2;
  const auto update = first_difference(step(), other);
  EXPECT_EQ(update.part, Part::kUpdate);
  EXPECT_EQ(update.b, "learning rate 0.2");
  other.gradients[1].digest = 99;
  const auto gradients = first_difference(step(), other);
  EXPECT_EQ(gradients.part, Part::kGradients);
  EXPECT_EQ(gradients.layer, "head.weight");
}

TEST(StepRecord, IsWhatWasWritten) {
  const TempDir folder;
  StepRecord record = step();
  record.loss = std::nan("");
  worker::write_record(record, folder / "step.json");
  const StepRecord read = worker::read_record(folder / "step.json");
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(read.batches[1].values, record.batches[1].values);
  EXPECT_FALSE(first_difference(record, read).any());
}

TEST(Spikes, TheLargestJumpComesFirst) {
  view::Curve loss;
  for (std::int64_t step = 1; step <= 40; ++step) {
    loss.push_back({step, 1.0 + 0.01 * static_cast<double>(step % 3)});
  }
  loss[19].value = 3;
  loss[29].value = 9;
  const auto found = worker::largest_spikes(loss, 2);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].step, 30);
  EXPECT_EQ(found[1].step, 20);
  EXPECT_TRUE(worker::largest_spikes({{1, 3}, {2, 2}, {3, 1}, {4, 0.5}}, 5).empty());
}

TEST(Median, OfFiniteValuesLeavesOutTheOthers) {
  std::vector<double> norms(3, std::nan(""));
  norms.push_back(INFINITY);
  for (int i = 1; i <= 17; ++i) norms.push_back(i);
  EXPECT_EQ(worker::median_of_finite(norms), 9);
  EXPECT_TRUE(std::isnan(worker::median_of_finite({std::nan(""), -INFINITY})));
  EXPECT_TRUE(std::isnan(worker::median_of_finite({})));
}

}  // namespace step_compare_test
}  // namespace lockstep::test
