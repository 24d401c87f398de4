// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/view/terminal.h"

namespace lockstep::view {
namespace chart_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

RunCurves run_of(const std::string& name, const Curve& loss) {
  return {.name = name, .steps = {{"loss", loss}}, .epochs = {}, .metrics = {}, .epoch_of = {}};
}

std::vector<std::string> labels_of(const Axis& axis) {
  std::vector<std::string> labels;
  for (const double tick : axis.ticks) labels.push_back(tick_label(tick, axis.distance));
  return labels;
}

TEST(Axis, HasTicksAtRoundNumbersThatEncloseTheValues) {
  EXPECT_THAT(labels_of(value_axis(0.13, 0.97, 5)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels_of(value_axis(-3, 11, 4)), ElementsAre("-5", "0", "5", "10", "15"));
  EXPECT_THAT(labels_of(value_axis(0, 6e-4, 4)), ElementsAre("0", "0.0002", "0.0004", "0.0006"));
  EXPECT_THAT(labels_of(value_axis(1e-6, 3e-6, 3)), ElementsAre("1e-06", "2e-06", "3e-06"));
  EXPECT_THAT(labels_of(value_axis(999, 3001, 5)),
              ElementsAre("500", "1,000", "1,500", "2,000", "2,500", "3,000", "3,500"));
  EXPECT_THAT(labels_of(value_axis(0, 2.4e6, 5)), ElementsAre("0", "0.5M", "1M", "1.5M", "2M", "2.5M"));
}

TEST(Axis, OfOneValueHasRoomAroundIt) {
  const Axis axis = value_axis(5, 5, 4);
  EXPECT_LT(axis.low, 5);
  EXPECT_GT(axis.high, 5);
  const Axis small = value_axis(1e-12, 1e-12, 4);
  EXPECT_LT(small.low, 1e-12);
  EXPECT_LT(small.high, 1e-11);
}

TEST(Axis, OfAMetricThatHasNotYetLeft0GoesFrom0To1) {
  EXPECT_THAT(labels_of(value_axis(0, 0, 5)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels_of(value_axis(-0.0, 0, 2)), ElementsAre("0", "0.5", "1.0"));
  EXPECT_EQ(value_axis(5e-324, 5e-324, 2).high, 1);
}

TEST(Axis, OfStepsHasWholeNumbersAndEndsWhereTheRunEnds) {
  const Axis axis = step_axis(1, 4, 10);
  EXPECT_THAT(labels_of(axis), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(step_axis(0, 9'990, 5).high, DoubleNear(9'990, 1e-9));
}

TEST(Charts, AreOfLossMetricsLearningRateAndSpeedInThisOrder) {
  RunCurves run = run_of("a", {{1, 2}});
  run.steps["lr"] = {{1, 0.1}};
  run.epochs["images_per_s"] = {{1, 80}};
  run.metrics["ap"] = {{1, 0.5}};
  run.metrics["loss"] = {{1, 0.5}};
  std::vector<std::string> titles;
  for (const Chart& chart : charts_of({run}, 0)) titles.push_back(chart.title + chart.unit);
  EXPECT_THAT(titles, ElementsAre("loss", "ap", "test loss", "learning rate", "speedimages/s"));
}

TEST(Charts, TellRunsOfTheSameNameApart) {
  const auto charts = charts_of({run_of("a", {{1, 2}}), run_of("a", {{1, 3}})}, 0);
  EXPECT_EQ(charts[0].series[0].name, "a");
  EXPECT_EQ(charts[0].series[1].name, "a (2)");
}

TEST(Charts, HaveTheTasksMainMetricFirstAsTheLogHasIt) {
  RunCurves run;
  add_line(run,
           R"({"event": "epoch", "epoch": 1, "step": 9, "metrics": {"string_accuracy": 0, "accuracy": 0.5, "a": 1}})");
  std::vector<std::string> titles;
  for (const Chart& chart : charts_of({run}, 0)) titles.push_back(chart.title);
  EXPECT_THAT(titles, ElementsAre("string_accuracy", "accuracy", "a"));
  EXPECT_EQ(axes_of(charts_of({run}, 0).front(), 5, 5).values.high, 1);
}

TEST(Charts, OfARunThatHasLoggedNothingAreAnError) { EXPECT_THROW((void)charts_of({run_of("a", {})}, 0), DataError); }

Chart falling() { return charts_of({run_of("first", {{0, 2}, {10, 1}, {20, 0}})}, 0).front(); }

TEST(TextChart, GoesFromTheUpperLeftToTheLowerRight) {
  EXPECT_EQ(text_chart(falling(), {.width = 20, .height = 5}),
            "loss  0  first\n"
            " 2┤⠑⠢⢄⡀\n"
            "  │   ⠈⠑⠢⢄⡀\n"
            " 1┤       ⠈⠑⠤⡀\n"
            "  │          ⠈⠑⠢⣀\n"
            " 0┤              ⠑⠢⢄\n"
            "   0      10      20\n");
}

TEST(TextChart, KeepsToItsWidthInColumns) {
  for (const int width : {24, 40, 80, 200}) {
    const Chart chart = charts_of({run_of("a-name-that-is-quite-long", {{0, 2}, {10'000, 1}}),
                                   run_of("another-name-that-is-even-longer", {{0, 1e-5}, {9'000, 3}})},
                                  0)
                            .front();
    std::istringstream lines(text_chart(chart, {.width = width}));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(TextChart, WithoutColourNamesEachRunByALetterAtTheEndOfItsCurve) {
  const Chart chart = charts_of({run_of("first", {{0, 2}, {10, 1}}), run_of("second", {{0, 1}, {10, 2}})}, 0).front();
  const std::string text = text_chart(chart, {.width = 30, .height = 5});
  EXPECT_THAT(text, HasSubstr("a 1          first\nb 2          second\n"));
  EXPECT_THAT(text, HasSubstr("b\n"));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  EXPECT_THAT(text_chart(chart, {.width = 30, .height = 5, .color = true}), HasSubstr("\033[36m━\033[0m 1"));
}

TEST(TextChart, OfOnePointShowsIt) {
  const Chart chart = charts_of({run_of("a", {{7, 0.5}})}, 0.6).front();
  EXPECT_THAT(text_chart(chart, {}), StartsWith("loss  0.5  a\n"));
  EXPECT_EQ(axes_of(chart, 5, 5).steps.low, 0);
}

}  // namespace chart_test
}  // namespace lockstep::view
