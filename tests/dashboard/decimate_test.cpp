// SPDX-License-Identifier: Apache-2.0
#include "dashboard/decimate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::dashboard {
namespace decimate_test {

view::Curve curve(std::int64_t size) {
  view::Curve out;
  for (std::int64_t step = 1; step <= size; ++step) out.push_back({step, static_cast<double>(step % 10)});
  return out;
}

TEST(Decimate, LeavesShortCurvesAlone) {
  const auto points = decimated(curve(50), {.points = 50});
  ASSERT_EQ(points.size(), 50U);
  EXPECT_EQ(points[49].step, 50);
}

TEST(Decimate, KeepsEveryExtremeAndTheEndsInTheOrderOfSteps) {
  view::Curve all = curve(1'000'000);
  all[123'456].value = 99;
  all[654'321].value = -99;
  const auto points = decimated(all, {.points = 2000});
  EXPECT_LE(points.size(), 2000U);
  EXPECT_EQ(points.front().step, 1);
  EXPECT_EQ(points.back().step, 1'000'000);
  const auto has = [&](std::int64_t step) {
    return std::any_of(points.begin(), points.end(), [&](const auto& point) { return point.step == step; });
  };
  EXPECT_TRUE(has(123'457));
  EXPECT_TRUE(has(654'322));
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(), [](auto& a, auto& b) { return a.step < b.step; }));
}

TEST(Decimate, AWindowHasItsNeighboursSoThatLinesReachItsEdges) {
  const auto points = decimated(curve(1000), {.low = 100, .high = 110, .points = 100});
  EXPECT_EQ(points.front().step, 99);
  EXPECT_EQ(points.back().step, 111);
  EXPECT_EQ(decimated({}, {}).size(), 0U);
}

}  // namespace decimate_test
}  // namespace lockstep::dashboard
