// SPDX-License-Identifier: Apache-2.0
// The network, and the assignment of its detections.
#include <ATen/core/ivalue.h>  // before any other torch header

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "detection/model/assignment.h"
#include "detection/model/box.h"
#include "detection/model/deformable.h"
#include "detection/model/denoising.h"
#include "detection/model/dense.h"
#include "detection/model/matcher.h"
#include "detection/model/model.h"
#include "lockstep/base/error.h"
#include "lockstep/nn/optimize.h"
#include "lockstep/train/prepare.h"

namespace lockstep::detection {
namespace detection_model_test {

// The network: shapes, sampling against grid_sample, denoising slots, and decoded detections.

ModelOptions tiny() {
  return {.classes = 3,
          .stem = {8, 16},
          .stages = {{.middle = 8, .out = 16, .layers = 2},
                     {.middle = 8, .out = 32, .blocks = 2, .layers = 2},
                     {.middle = 16, .out = 32, .layers = 2, .light = true}},
          .hidden = 32,
          .heads = 2,
          .encoder_feedforward = 32,
          .decoder_layers = 3,
          .decoder_feedforward = 32,
          .queries = 20,
          .reg_max = 16,
          .denoising = 12};
}

DenoisingOptions slots() {
  const ModelOptions options = tiny();
  return {.slots = options.denoising, .queries = options.queries, .classes = options.classes};
}

Detections objects(std::int64_t count) {
  Detections some;
  some.boxes = at::rand({count, 4}) * 0.3 + 0.3;
  some.labels = at::randint(3, {count}, at::kLong);
  return some;
}

TEST(DetectionModel, GivesEveryTensorInTheShapeThatItsHeaderSays) {
  Detector net(tiny());
  const Targets targets = {objects(3), objects(0)};
  const Outputs out = net.forward(at::rand({2, 3, 64, 96}), &targets);
  const auto sizes = [&](const char* name) { return out.at(name).sizes().vec(); };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes("logits"), (Sizes{3, 2, 20, 3}));
  EXPECT_EQ(sizes("boxes"), (Sizes{3, 2, 20, 4}));
  EXPECT_EQ(sizes("corners"), (Sizes{3, 2, 20, 68}));
  EXPECT_EQ(sizes("refs"), (Sizes{2, 20, 4}));
  EXPECT_EQ(sizes("pre_logits"), (Sizes{1, 2, 20, 3}));
  EXPECT_EQ(sizes("enc_boxes"), (Sizes{1, 2, 20, 4}));
  EXPECT_EQ(sizes("dn_logits"), (Sizes{3, 2, 12, 3}));
  EXPECT_EQ(sizes("dn_refs"), (Sizes{2, 12, 4}));
  EXPECT_EQ(sizes("dn_pre_boxes"), (Sizes{1, 2, 12, 4}));
  EXPECT_EQ(sizes("dn_index"), (Sizes{2, 12}));
  EXPECT_FALSE(out.at("refs").requires_grad());
  EXPECT_EQ(sizes("dense_logits"), (Sizes{1, 2, 16 * 24 + 8 * 12 + 4 * 6, 3}));
  EXPECT_EQ(sizes("dense_boxes"), (Sizes{1, 2, 16 * 24 + 8 * 12 + 4 * 6, 4}));
  EXPECT_TRUE(out.at("dense_sizes").equal(at::tensor({16, 24, 8, 12, 4, 6}, at::kLong).view({3, 2})));
  EXPECT_EQ(out.size(), 19U);
}

TEST(DetectionModel, InEvaluationGivesTheLastLayerAloneAndIgnoresTargets) {
  Detector net(tiny());
  net.eval();
  const at::NoGradGuard guard;
  const at::Tensor images = at::rand({1, 3, 64, 64});
  const Targets targets = {objects(3)};
  const Outputs out = net.forward(images, &targets);
  EXPECT_EQ(out.size(), 4U);
  EXPECT_EQ(out.at("logits").size(0), 1);
  EXPECT_TRUE(out.at("boxes").equal(net.forward(images, nullptr).at("boxes")));
}

TEST(DetectionModel, TakesPicturesOfSeveralSizesAndRefusesWhatDoesNotDivide) {
  Detector net(tiny());
  net.eval();
  const at::NoGradGuard guard;
  for (const std::int64_t size : {64, 96, 64}) {
    EXPECT_EQ(net.forward(at::rand({1, 3, size, size}), nullptr).at("logits").size(2), 20);
  }
  EXPECT_EQ(net.options().coarsest_stride(), 16);
  EXPECT_THROW(net.forward(at::rand({1, 3, 64, 72}), nullptr), UsageError);
  ModelOptions greedy = tiny();
  greedy.queries = 400;
  Detector other(greedy);
  EXPECT_THROW(other.forward(at::rand({1, 3, 64, 64}), nullptr), UsageError);
}

TEST(DetectionModel, WithFourStagesHasStridesUpTo32) {
  ModelOptions options = tiny();
  options.stages.push_back({.middle = 16, .out = 32, .layers = 2, .light = true});
  Detector net(options);
  EXPECT_EQ(options.coarsest_stride(), 32);
  EXPECT_EQ(net.forward(at::rand({2, 3, 64, 64}), nullptr).at("logits").size(0), 3);
}

TEST(DetectionModel, RefusesSizesThatDoNotFit) {
  const auto refused = [](auto change) {
    ModelOptions options = tiny();
    change(options);
    EXPECT_THROW(Detector{options}, UsageError);
  };
  refused([](ModelOptions& o) { o.heads = 3; });
  refused([](ModelOptions& o) { o.reg_max = 15; });
  refused([](ModelOptions& o) { o.denoising = 1; });
  refused([](ModelOptions& o) { o.stages.pop_back(); });
  refused([](ModelOptions& o) { o.queries = 0; });
}

TEST(DetectionModel, AtFirstItsRefinedBoxesAreTheInitialOnes) {
  Detector net(tiny());
  const Outputs out = net.forward(at::rand({1, 3, 64, 64}), nullptr);
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_TRUE(out.at("boxes")[layer].allclose(out.at("refs"), 1e-4, 1e-5));
  }
}

/// Configurations select these groups by name patterns.
TEST(DetectionModel, HasThePartsOfTheOriginAndItsFusedLayersLeaveNothingBehind) {
  Detector net({});
  use_channels_last(net);
  const nn::Optimized done = nn::optimize(net);
  EXPECT_EQ(done.left.size(), 0U) << done.left.front().name;
  std::size_t norms = 0;
  for (const auto& chain : done.fused) norms += chain.what == "BatchNorm2d + ReLU" ? 1 : 0;
  EXPECT_EQ(norms, 45U);
  for (const auto& item : net.named_parameters()) {
    const bool known =
        item.key().starts_with("backbone.") || item.key().starts_with("encoder.") || item.key().starts_with("decoder.");
    EXPECT_TRUE(known) << item.key();
  }
  EXPECT_LT(parameter_count(net), 3'000'000);
}

TEST(DetectionModel, SamplesWhatGridSampleSamples) {
  const ScaleSizes sizes = {{12, 10}, {6, 5}, {3, 3}};
  const std::array<std::int64_t, 3> points = {4, 3, 2};
  at::Tensor values = at::randn({2, 120 + 30 + 9, 64}).requires_grad_();
  // Some of the points are outside the image.
  at::Tensor places = (at::rand({2, 7, 2, 9, 2}) * 1.6 - 0.3).requires_grad_();
  at::Tensor shares = at::rand({2, 7, 2, 9}).requires_grad_();
  const at::Tensor weights = at::randn({2, 7, 64});
  const at::Tensor own = sample_points(values, places, shares, sizes, points);
  const at::Tensor theirs = sample_by_grid(values, places, shares, sizes, points);
  EXPECT_TRUE(own.allclose(theirs, 1e-4, 1e-5));
  const auto gradients = [&](const at::Tensor& result) {
    return torch::autograd::grad({result}, {values, places, shares}, {weights});
  };
  const auto of_mine = gradients(own);
  const auto of_theirs = gradients(theirs);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(of_mine[i].allclose(of_theirs[i], 1e-3, 1e-4)) << "input " << i;
}

TEST(DetectionModel, SamplesTheSameBitsOnAnyNumberOfThreads) {
  const ScaleSizes sizes = {{12, 10}};
  at::Tensor values = at::randn({3, 120, 32}).requires_grad_();
  const at::Tensor places = at::rand({3, 50, 2, 4, 2});
  const at::Tensor shares = at::rand({3, 50, 2, 4});
  const auto gradient = [&](int threads) {
    at::set_num_threads(threads);
    const at::Tensor seen = sample_points(values, places, shares, sizes, {4, 0, 0});
    return torch::autograd::grad({seen.square().sum()}, {values})[0];
  };
  const at::Tensor with_two = gradient(2);
  EXPECT_TRUE(gradient(1).equal(with_two));
}

TEST(DetectionModel, APlaceThatIsNoNumberIsSeenAsSuch) {
  at::Tensor places = at::full({1, 1, 1, 1, 2}, 0.5F);
  places[0][0][0][0][1] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor seen =
      sample_points(at::rand({1, 4, 16}), places, at::full({1, 1, 1, 1}, 1.0F), {{2, 2}}, {1, 0, 0});
  EXPECT_TRUE(seen.isnan().all().item<bool>());
}

TEST(DetectionDenoising, PacksTheGroupsOfEachImageByItself) {
  const Targets targets = {objects(2), objects(0), objects(5), objects(8)};
  const Denoising all = make_denoising(targets, 4, slots());
  const auto positives = [&](std::int64_t image) { return (all.index[image] >= 0).sum().item<std::int64_t>(); };
  EXPECT_EQ(positives(0), 6);  // 3 groups of 2 objects and 2 negative boxes
  EXPECT_EQ(positives(1), 0);
  EXPECT_EQ(positives(2), 5);
  EXPECT_EQ(positives(3), 6);  // no more than half of the slots
  EXPECT_FLOAT_EQ(all.weight[0][0].item<float>(), 1.0F / 3);
  EXPECT_FLOAT_EQ(all.weight[1].abs().max().item<float>(), 0);
  EXPECT_FLOAT_EQ(all.weight[2][9].item<float>(), 1);
  EXPECT_FLOAT_EQ(all.weight[2][10].item<float>(), 0);
  EXPECT_EQ(all.labels[1][0].item<std::int64_t>(), 3);  // padding
}

TEST(DetectionDenoising, SlotsSeeTheirGroupAndTheQueriesAndQueriesSeeNoSlot) {
  const Denoising all = make_denoising({objects(2)}, 1, slots());
  const at::Tensor seen = all.mask[0][0] == 0;
  EXPECT_EQ(all.mask.size(-1), 32);
  for (std::int64_t row = 0; row < 32; ++row) {
    for (std::int64_t column = 0; column < 32; ++column) {
      const bool expected = column >= 12 || (row < 12 && row / 4 == column / 4);
      ASSERT_EQ(seen[row][column].item<bool>(), expected) << row << ", " << column;
    }
  }
}

TEST(DetectionDenoising, NegativeBoxesAreFartherAwayThanPositiveOnes) {
  at::manual_seed(4);
  Targets targets = {objects(2)};
  targets[0].boxes = at::tensor({0.5, 0.5, 0.2, 0.2, 0.5, 0.5, 0.1, 0.3}).view({2, 4}).to(at::kFloat);
  const Denoising all = make_denoising(targets, 1, slots());
  for (std::int64_t slot = 0; slot < 12; ++slot) {
    const at::Tensor object = targets[0].boxes[slot % 2];
    const at::Tensor moved =
        ((to_corners(all.boxes[0][slot]) - to_corners(object)) / object.narrow(0, 2, 2).repeat({2})).abs();
    if (slot % 4 < 2) {
      EXPECT_LE(moved.max().item<float>(), 0.5F + 1e-5F) << slot;
    } else {
      EXPECT_GT(moved.max().item<float>(), 0.5F - 1e-5F) << slot;
    }
  }
}

TEST(DetectionDenoising, DrawsTheSameNumberOfNumbersWhateverTheTargetsHold) {
  const auto next_after = [](const Targets& targets) {
    at::manual_seed(9);
    static_cast<void>(make_denoising(targets, 2, slots()));
    return at::rand({1}).item<float>();
  };
  const float after_none = next_after({objects(0), objects(0)});
  EXPECT_EQ(next_after({objects(3), objects(20)}), after_none);
}

TEST(DetectionModel, DecodesTheMostCertainPairsOfQueryAndClass) {
  Outputs outputs;
  outputs["logits"] = at::tensor({-9.0, 3.0, 1.0,  // query 0
                                  2.0, -9.0, 3.0})
                          .view({1, 1, 2, 3})
                          .to(at::kFloat);
  outputs["boxes"] = at::tensor({0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.2, 0.2}).view({1, 1, 2, 4}).to(at::kFloat);
  const std::vector<Found> found = decode(outputs, 4);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].labels.equal(at::tensor({1, 2, 0, 2}, at::kLong)));
  EXPECT_FLOAT_EQ(found[0].boxes[1][0].item<float>(), 0.5F);
  EXPECT_FLOAT_EQ(found[0].boxes[3][0].item<float>(), 0.1F);
  EXPECT_NEAR(found[0].scores[0].item<double>(), 0.9525741, 1e-6);
  EXPECT_EQ(decode(outputs, 100)[0].scores.numel(), 6);
}

}  // namespace detection_model_test

namespace detection_matcher_test {

// The assignment against all permutations and against its own certificate; the query of each object.

struct Problem {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> costs;

  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    return costs[static_cast<std::size_t>(row * columns + column)];
  }
};

/// If `coarse`, costs are whole numbers, so many are equal.
Problem random_problem(std::mt19937& random, std::int64_t rows, std::int64_t columns, bool coarse) {
  Problem problem{.rows = rows, .columns = columns, .costs = {}};
  std::uniform_real_distribution<float> number(-5, 5);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const float cost = number(random);
    problem.costs.push_back(coarse ? std::round(cost / 2) : cost);
  }
  return problem;
}

double cost_of(const Problem& problem, const Assignment& found) {
  double cost = 0;
  for (std::size_t row = 0; row < found.column_of.size(); ++row) {
    if (found.column_of[row] >= 0) cost += problem.at(static_cast<std::int64_t>(row), found.column_of[row]);
  }
  return cost;
}

/// The lowest cost of any assignment, found by trying them all.
double least_cost(const Problem& problem) {
  const bool wide = problem.rows <= problem.columns;
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::max(problem.rows, problem.columns)));
  std::iota(order.begin(), order.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  do {
    double cost = 0;
    for (std::int64_t i = 0; i < std::min(problem.rows, problem.columns); ++i) {
      const std::int64_t other = order[static_cast<std::size_t>(i)];
      cost += wide ? problem.at(i, other) : problem.at(other, i);
    }
    least = std::min(least, cost);
  } while (std::ranges::next_permutation(order).found);
  return least;
}

void expect_assignment(const Problem& problem, const Assignment& found) {
  ASSERT_EQ(found.column_of.size(), static_cast<std::size_t>(problem.rows));
  std::set<std::int64_t> taken;
  for (const std::int64_t column : found.column_of) {
    if (column < 0) continue;
    EXPECT_LT(column, problem.columns);
    EXPECT_TRUE(taken.insert(column).second) << "column " << column << " twice";
  }
  EXPECT_EQ(static_cast<std::int64_t>(taken.size()), std::min(problem.rows, problem.columns));
}

TEST(Assignment, HasTheLeastCostOfAllPermutations) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const auto rows = std::uniform_int_distribution<std::int64_t>(1, 6)(random);
    const auto columns = std::uniform_int_distribution<std::int64_t>(1, 6)(random);
    const Problem problem = random_problem(random, rows, columns, /*coarse=*/round % 2 == 1);
    const Assignment found = assign(problem.costs, rows, columns);
    expect_assignment(problem, found);
    EXPECT_NEAR(cost_of(problem, found), least_cost(problem), 1e-5) << rows << " x " << columns << ", round " << round;
  }
}

/// If prices nowhere exceed the costs and their sum equals the cost, no assignment can be cheaper.
void expect_proof(const Problem& problem, const Assignment& found) {
  constexpr double kRounding = 1e-4;
  for (std::int64_t i = 0; i < problem.rows; ++i) {
    for (std::int64_t j = 0; j < problem.columns; ++j) {
      const double prices =
          found.row_price[static_cast<std::size_t>(i)] + found.column_price[static_cast<std::size_t>(j)];
      ASSERT_LE(prices, problem.at(i, j) + kRounding) << i << ", " << j;
    }
  }
  const auto& optional = problem.rows <= problem.columns ? found.column_price : found.row_price;
  for (const double price : optional) ASSERT_LE(price, kRounding);
  const double sum = std::accumulate(found.row_price.begin(), found.row_price.end(), 0.0) +
                     std::accumulate(found.column_price.begin(), found.column_price.end(), 0.0);
  EXPECT_NEAR(sum, cost_of(problem, found), kRounding * static_cast<double>(problem.rows + problem.columns));
}

TEST(Assignment, CarriesAProofThatLargeOnesHaveTheLeastCost) {
  std::mt19937 random(2);
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {
      {30, 100}, {100, 100}, {150, 40}, {1, 300}, {200, 300}};
  for (const auto& [rows, columns] : sizes) {
    for (const bool coarse : {false, true}) {
      const Problem problem = random_problem(random, rows, columns, coarse);
      const Assignment found = assign(problem.costs, rows, columns);
      expect_assignment(problem, found);
      expect_proof(problem, found);
    }
  }
}

TEST(Assignment, OfNothingIsNothing) {
  EXPECT_TRUE(assign({}, 0, 5).column_of.empty());
  EXPECT_EQ(assign({}, 2, 0).column_of, (std::vector<std::int64_t>{-1, -1}));
}

TEST(Assignment, RefusesCostsThatCannotBeCompared) {
  const std::vector<float> bad = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_THROW(static_cast<void>(assign(bad, 1, 2)), UsageError);
  EXPECT_THROW(static_cast<void>(assign(bad, 2, 2)), UsageError);
}

Detections objects(std::int64_t count, std::int64_t classes) {
  Detections some;
  some.boxes = at::rand({count, 4}) * 0.3 + 0.3;
  some.labels = at::randint(classes, {count}, at::kLong);
  some.id = 70 + count;
  return some;
}

TEST(DetectionMatcher, FindsTheQueriesThatAreTheObjects) {
  const Targets targets = {objects(3, 4), objects(0, 4), objects(2, 4)};
  const at::Tensor logits = at::full({2, 3, 6, 4}, -4.0F);
  const at::Tensor boxes = at::full({2, 3, 6, 4}, 0.05F);
  // The objects are in the last queries, in a different order in each set.
  const auto place = [&](std::int64_t set, std::int64_t image, std::int64_t query, std::int64_t object) {
    const Detections& target = targets[static_cast<std::size_t>(image)];
    boxes[set][image][query].copy_(target.boxes[object]);
    logits[set][image][query][target.labels[object].item<std::int64_t>()] = 4;
  };
  for (std::int64_t i = 0; i < 3; ++i) place(0, 0, 3 + i, i);
  for (std::int64_t i = 0; i < 3; ++i) place(1, 0, 5 - i, i);
  for (std::int64_t set = 0; set < 2; ++set) place(set, 2, 1, 0);
  for (std::int64_t set = 0; set < 2; ++set) place(set, 2, 0, 1);
  const auto found = match(logits, boxes, pad(targets, 4, at::kCPU), {}, {"a", "b"});
  EXPECT_EQ(found[0][0], (Pairs{{3, 0}, {4, 1}, {5, 2}}));
  EXPECT_EQ(found[1][0], (Pairs{{3, 2}, {4, 1}, {5, 0}}));
  EXPECT_TRUE(found[0][1].empty());
  EXPECT_EQ(found[1][2], (Pairs{{0, 1}, {1, 0}}));
}

TEST(DetectionMatcher, OfEquallyDistantBoxesTakesTheOneThatOverlapsMore) {
  Detections one;
  one.boxes = at::tensor({0.5, 0.5, 0.2, 0.2}).view({1, 4}).to(at::kFloat);
  one.labels = at::zeros({1}, at::kLong);
  const at::Tensor boxes =
      at::tensor({0.6, 0.5, 0.2, 0.2, 0.5, 0.5, 0.3, 0.2, 0.5, 0.4, 0.2, 0.2}).view({1, 1, 3, 4}).to(at::kFloat);
  const auto found = match(at::zeros({1, 1, 3, 1}), boxes, pad({one}, 1, at::kCPU), {}, {"a"});
  EXPECT_EQ(found[0][0], (Pairs{{1, 0}}));
}

TEST(DetectionMatcher, MatchesAsManyOfTheObjectsAsThereAreQueries) {
  const Targets targets = {objects(9, 4)};
  const auto found = match(at::randn({1, 1, 5, 4}), at::rand({1, 1, 5, 4}), pad(targets, 4, at::kCPU), {}, {"a"});
  ASSERT_EQ(found[0][0].size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(found[0][0][i].query, static_cast<std::int64_t>(i));
}

TEST(DetectionMatcher, SaysWhichPredictionIsNotFinite) {
  const Targets targets = {objects(2, 4), objects(0, 4)};
  const at::Tensor logits = at::randn({2, 2, 5, 4});
  const at::Tensor boxes = at::rand({2, 2, 5, 4});
  boxes[1][1][3][2] = std::numeric_limits<float>::quiet_NaN();  // in an image without objects, which is checked as well
  try {
    static_cast<void>(match(logits, boxes, pad(targets, 4, at::kCPU), {}, {"predictions_aux_0", "predictions"}));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("predictions"), std::string::npos);
    EXPECT_NE(error.message().find("boxes are not finite, first in image 1"), std::string::npos) << error.message();
  }
}

TEST(DetectionMatcher, RefusesAClassThatTheNetworkDoesNotHave) {
  Targets targets = {objects(2, 4)};
  targets[0].labels[1] = 4;
  EXPECT_THROW(static_cast<void>(pad(targets, 4, at::kCPU)), DataError);
}

TEST(DetectionMatcher, AUnionGivesEachQueryItsMostFrequentObject) {
  const std::vector<Matches> sets = {
      {{{0, 1}, {2, 0}}}, {{{0, 2}, {2, 0}}}, {{{0, 2}, {5, 1}}}, {{{3, 4}}}, {{{3, 2}}}};
  EXPECT_EQ(unite(sets), (Matches{{{0, 2}, {2, 0}, {3, 2}, {5, 1}}}));
}

TEST(DetectionDense, PositionsAroundAnObjectsMiddleAnswerForItOnTheScaleOfItsSize) {
  Detections some;
  // A speck in a corner, a square in the middle, and a large square around it.
  some.boxes = at::tensor({0.01, 0.01, 0.001, 0.001,  //
                           0.5, 0.5, 0.1, 0.1,        //
                           0.5, 0.5, 0.3, 0.3})
                   .view({3, 4})
                   .to(at::kFloat);
  some.labels = at::tensor({0, 1, 2}, at::kLong);
  const at::Tensor sizes = at::tensor({16, 16, 8, 8, 4, 4}, at::kLong).view({3, 2});
  const Matches found = dense_matches(sizes, pad({some, objects(0, 4)}, 4, at::kCPU));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[1].empty());
  // 256 positions (16 x 16), then 64. The square's own cell of 8 x 8 and the three that touch its centre are inside it
  // by less than half a cell, so only its own cell counts; the large square's centre touches four cells.
  EXPECT_EQ(found[0], (Pairs{{0, 0}, {256 + 8 * 4 + 4, 1}, {320 + 5, 2}, {320 + 6, 2}, {320 + 9, 2}, {320 + 10, 2}}));
}

TEST(DetectionDense, OfSeveralObjectsAtAPositionItIsTheSmallestOnes) {
  Detections some;
  some.boxes =
      at::tensor({0.5, 0.5, 0.06, 0.06, 0.5, 0.5, 0.05, 0.05, 0.52, 0.5, 0.07, 0.07}).view({3, 4}).to(at::kFloat);
  some.labels = at::zeros({3}, at::kLong);
  const Matches found = dense_matches(at::tensor({9, 9}, at::kLong).view({1, 2}), pad({some}, 4, at::kCPU));
  EXPECT_EQ(found[0], (Pairs{{40, 1}}));
}

}  // namespace detection_matcher_test
}  // namespace lockstep::detection
