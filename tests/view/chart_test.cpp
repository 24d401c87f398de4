// SPDX-License-Identifier: Apache-2.0
// Metrics of a run, as curves and for Prometheus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/view/chart.h"
#include "lockstep/view/metrics_page.h"
#include "lockstep/view/run_curves.h"
#include "lockstep/view/terminal.h"
#include "support/temp_dir.h"

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

TEST(MetricsPage, HasAHelpAndATypeBeforeEachFigure) {
  EXPECT_THAT(metrics_page({.recipe = "captcha", .run = "first", .step = 7, .loss = 0.25}),
              HasSubstr("# HELP lockstep_loss Loss of the last logged step, the mean over all replicas.\n"
                        "# TYPE lockstep_loss gauge\n"
                        "lockstep_loss{recipe=\"captcha\",run=\"first\"} 0.25\n"));
}

TEST(MetricsPage, LeavesOutWhatIsNotKnownYet) {
  const std::string page = metrics_page({.recipe = "captcha"});
  EXPECT_THAT(page, HasSubstr("lockstep_step{"));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_loss")));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_memory")));
  EXPECT_THAT(page, Not(HasSubstr("lockstep_metric")));
}

TEST(MetricsPage, EscapesNamesAndWritesNumbersAsPrometheusReadsThem) {
  const std::string page = metrics_page({.recipe = "a\"b\\c\nd",
                                         .metrics = {{"ap", std::numeric_limits<double>::quiet_NaN()},
                                                     {"psnr", std::numeric_limits<double>::infinity()}}});
  EXPECT_THAT(page, HasSubstr("recipe=\"a\\\"b\\\\c\\nd\""));
  EXPECT_THAT(page, HasSubstr("name=\"ap\"} NaN\n"));
  EXPECT_THAT(page, HasSubstr("name=\"psnr\"} +Inf\n"));
}

}  // namespace chart_test

namespace run_curves_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> words_of(const Curve& curve) {
  std::vector<std::string> words;
  for (const CurvePoint& point : curve) words.push_back(std::to_string(point.step) + ":" + std::to_string(point.value));
  return words;
}

std::string step_line(std::int64_t step, const std::string& loss) {
  return R"({"event": "step", "step": )" + std::to_string(step) + R"(, "epoch": 1, "loss": )" + loss +
         R"(, "lr": 0.1, "images_per_s": null, "losses": {"box": 0.25}})";
}

constexpr const char* kEpochLine =
    R"({"event": "epoch", "epoch": 1, "step": 4, "loss": 0.5, "lr": 0.1, "images_per_s": 80, "metrics": {"ap": 0.75}})";

RunCurves run_of(const std::vector<std::string>& lines) {
  RunCurves run{.name = "run", .steps = {}, .epochs = {}, .metrics = {}, .epoch_of = {}};
  for (const std::string& line : lines) (void)add_line(run, line);
  return run;
}

constexpr const char* kUpToTwo = R"({"event": "start", "step": 9}
{"event": "step", "step": 1, "loss": 0.5}
{"event": "step", "step": 2, "loss": null}
{"event": "epoch", "epoch": 1, "step": 2}
)";

constexpr const char* kLater = R"({"event": "step", "step": 3, "loss": 0.25}
{"event": "epoch", "epoch": 2, "step": 4}
{"event": "report", "epoch": 2, "step": 4, "report": {}}
{"event": "resume", "step": 3}
{"event": "refresh", "epoch": 2, "step": 2}
)";

TEST(RunLog, LaterStepsEpochsAndResumesGoAndTheRestStays) {
  const KeptLog kept = keep_log_up_to(std::string(kUpToTwo) + kLater, {.step = 2});
  EXPECT_EQ(kept.text, kUpToTwo);
  EXPECT_EQ(kept.damaged, 0);
}

TEST(RunLog, TheEpochGoesWhoseEvaluationIsRepeated) {
  const std::string steps = "{\"event\": \"step\", \"step\": 2}\n";
  const std::string epoch =
      "{\"event\": \"epoch\", \"step\": 2}\n{\"event\": \"report\", \"step\": 2, \"report\": {}}\n";
  const std::string before = "{\"event\": \"epoch\", \"step\": 1}\n";
  EXPECT_EQ(keep_log_up_to(before + steps + epoch, {.step = 2, .repeats_epoch = true}).text, before + steps);
  EXPECT_EQ(keep_log_up_to(before + steps + epoch, {.step = 2}).text, before + steps + epoch);
}

TEST(RunLog, EventsWithoutAStepAreNoneOfALaterOne) {
  const std::string lines = "{\"event\": \"step\"}\n{\"step\": 7}\n{\"event\": \"epoch\", \"step\": \"7\"}\n";
  EXPECT_EQ(keep_log_up_to(lines, {.step = 0}).text, lines);
}

TEST(RunLog, ATornLastLineGoes) {
  const KeptLog kept = keep_log_up_to(std::string(kUpToTwo) + R"({"event": "step", "st)", {.step = 2});
  EXPECT_EQ(kept.text, kUpToTwo);
  EXPECT_EQ(kept.damaged, 1);
}

TEST(RunLog, AWholeLastLineGetsTheNewlineThatTheKillTook) {
  const std::string whole = kUpToTwo;
  const KeptLog kept = keep_log_up_to(whole.substr(0, whole.size() - 1), {.step = 2});
  EXPECT_EQ(kept.text, whole);
  EXPECT_EQ(kept.damaged, 0);
}

TEST(RunLog, WhatIsNoObjectIsCountedWhereverItStands) {
  const KeptLog kept = keep_log_up_to("[1]\n\n" + std::string(kUpToTwo) + "{]\n", {.step = 2});
  EXPECT_EQ(kept.text, kUpToTwo);
  EXPECT_EQ(kept.damaged, 3);
}

TEST(RunLog, AnEmptyLogStaysEmpty) { EXPECT_EQ(keep_log_up_to("", {.step = 0}).text, ""); }

TEST(RunCurves, HaveTheFiguresOfStepsEpochsAndEvaluations) {
  const RunCurves run = run_of({step_line(2, "1.5"), step_line(4, "1.0"), kEpochLine});
  EXPECT_THAT(words_of(run.steps.at("loss")), ElementsAre("2:1.500000", "4:1.000000"));
  EXPECT_THAT(words_of(run.steps.at("losses.box")), ElementsAre("2:0.250000", "4:0.250000"));
  EXPECT_THAT(words_of(run.epochs.at("images_per_s")), ElementsAre("4:80.000000"));
  EXPECT_THAT(words_of(run.metrics.at("ap")), ElementsAre("4:0.750000"));
  EXPECT_EQ(run.steps.count("images_per_s"), 0U);
}

TEST(RunCurves, LeaveOutALossThatIsNullAndALineThatIsTorn) {
  const RunCurves run = run_of({step_line(2, "null"), step_line(4, "1.0"), R"({"event": "st)", R"([1, 2])", "{}"});
  EXPECT_THAT(words_of(run.steps.at("loss")), ElementsAre("4:1.000000"));
  EXPECT_EQ(run.damaged, 2);
}

TEST(RunCurves, SurviveValuesOfOtherTypes) {
  const RunCurves run = run_of({R"({"event": 3, "step": 1})", R"({"event": "step", "step": "one"})",
                                R"({"event": "step", "step": 1, "loss": "low", "losses": 5})",
                                R"({"event": "epoch", "step": 1, "epoch": "one", "metrics": [1]})"});
  EXPECT_EQ(run.steps.count("loss"), 0U);
}

TEST(RunCurves, OfARunThatRepeatsStepsHaveNoZigzag) {
  const RunCurves run =
      run_of({step_line(2, "1"), step_line(4, "2"), step_line(6, "3"), step_line(4, "9"), step_line(6, "8")});
  EXPECT_THAT(words_of(run.steps.at("loss")), ElementsAre("2:1.000000", "4:9.000000", "6:8.000000"));
}

TEST(RunCurves, LoseThePointsThatARepeatedStepHasAsNull) {
  const RunCurves run = run_of({step_line(2, "1"), step_line(4, "2"), step_line(6, "3"), step_line(4, "null")});
  EXPECT_THAT(words_of(run.steps.at("loss")), ElementsAre("2:1.000000"));
  const RunCurves other = run_of({step_line(2, "1"), step_line(2, "null")});
  EXPECT_EQ(other.steps.count("loss"), 0U) << "a curve has a point";
  EXPECT_EQ(other.damaged, 0);
}

TEST(RunCurves, AreReadFromTheFolderUpToItsLastWholeLine) {
  const test::TempDir folder;
  std::ofstream(folder / "log.jsonl") << step_line(2, "1.5") << "\n"
                                      << step_line(4, "1.0") << "\n"
                                      << R"({"event": "s)";
  const RunCurves run = read_run_curves(folder.path());
  EXPECT_EQ(run.name, folder.path().filename().string());
  EXPECT_EQ(run.steps.at("loss").size(), 2U);
  EXPECT_EQ(run.damaged, 0);
}

TEST(RunCurves, SkipALineOfManyMegabytesInBoundedMemory) {
  const test::TempDir folder;
  std::ofstream(folder / "log.jsonl") << step_line(2, "1") << "\n{\"event\": \"" << std::string(5'000'000, 'x')
                                      << "\"}\n"
                                      << step_line(4, "2") << "\n";
  const RunCurves run = read_run_curves(folder.path());
  EXPECT_THAT(words_of(run.steps.at("loss")), ElementsAre("2:1.000000", "4:2.000000"));
  EXPECT_EQ(run.damaged, 1);
}

TEST(RunCurves, OfAMissingFolderAndOfOneWithoutARunAreTwoErrors) {
  const test::TempDir folder;
  try {
    (void)read_run_curves(folder / "nowhere");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), StartsWith("there is no folder"));
  }
  try {
    (void)read_run_curves(folder.path());
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.message(), HasSubstr("is not a run folder"));
  }
}

TEST(CurvesCsv, HasARowForEachStepAndEpochWithEmptyCellsWhereAFigureIsMissing) {
  EXPECT_EQ(curves_csv({run_of({step_line(2, "1.5"), step_line(4, "null"), kEpochLine})}),
            "run,event,epoch,step,images_per_s,loss,losses.box,lr,metrics.ap\n"
            "run,step,1,2,,1.5,0.25,0.1,\n"
            "run,step,1,4,,,0.25,0.1,\n"
            "run,epoch,1,4,80,0.5,,0.1,0.75\n");
}

TEST(CurvesCsv, QuotesNamesWithCommas) {
  RunCurves run = run_of({step_line(2, "1")});
  run.name = "a,\"b\"";
  EXPECT_THAT(curves_csv({run}), HasSubstr("\"a,\"\"b\"\"\",step"));
}

TEST(Smoothed, IsTensorBoardsAverageWithItsStartCorrected) {
  const Curve curve = {{1, 1}, {2, 2}, {3, 4}};
  const Curve smooth = smoothed(curve, 0.5);
  EXPECT_DOUBLE_EQ(smooth[0].value, 1);
  EXPECT_DOUBLE_EQ(smooth[1].value, (0.25 * 1 + 0.5 * 2) / 0.75);
  EXPECT_DOUBLE_EQ(smooth[2].value, (0.125 * 1 + 0.25 * 2 + 0.5 * 4) / 0.875);
  EXPECT_DOUBLE_EQ(smoothed(curve, 0)[2].value, 4);
}

}  // namespace run_curves_test
}  // namespace lockstep::view
