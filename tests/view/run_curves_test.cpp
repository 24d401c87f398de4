// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/run_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "support/temp_dir.h"

namespace lockstep::view {
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
  for (const std::string& line : lines) add_line(run, line);
  return run;
}

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
    EXPECT_THAT(error.message(), HasSubstr("holds no run"));
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
