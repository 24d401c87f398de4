// SPDX-License-Identifier: Apache-2.0
// The assignment against all permutations and against its own proof; who answers for which object.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "detection/model/assignment.h"
#include "detection/model/dense.h"
#include "detection/model/matcher.h"
#include "lockstep/base/error.h"

namespace lockstep::detection {
namespace detection_matcher_test {

struct Problem {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> costs;

  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    return costs[static_cast<std::size_t>(row * columns + column)];
  }
};

/// Costs are whole numbers where `coarse`: then many are equal.
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

/// The least cost of all assignments, by trying each.
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

/// Prices below the costs everywhere whose sum is the cost: nothing can be cheaper.
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
  // The objects stand in the last queries, in another order in each set.
  const auto place = [&](std::int64_t set, std::int64_t image, std::int64_t query, std::int64_t object) {
    const Detections& of = targets[static_cast<std::size_t>(image)];
    boxes[set][image][query].copy_(of.boxes[object]);
    logits[set][image][query][of.labels[object].item<std::int64_t>()] = 4;
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
  boxes[1][1][3][2] = std::numeric_limits<float>::quiet_NaN();  // of an image without objects: it counts all the same
  try {
    static_cast<void>(match(logits, boxes, pad(targets, 4, at::kCPU), {}, {"predictions_aux_0", "predictions"}));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.message().find("predictions"), std::string::npos);
    EXPECT_NE(error.message().find("boxes are not finite, first for image 1"), std::string::npos) << error.message();
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
  // A speck in a corner, a square in the middle, and a large one around it.
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
  // 256 positions of 16 x 16, then 64: the square's own cell of 8 x 8 and the three that touch its middle are within it
  // by less than half a cell only, so that it is the cell alone; the large one's middle touches four cells.
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
