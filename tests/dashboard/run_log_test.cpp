// SPDX-License-Identifier: Apache-2.0
// Reading a run: its log, the points of its curves, its timeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "dashboard/decimate.h"
#include "dashboard/line_reader.h"
#include "dashboard/run_log.h"
#include "dashboard/timeline.h"
#include "support/temp_dir.h"

namespace lockstep::dashboard {
namespace run_log_test {

using flight::Event;
using flight::EventType;

class RunLogTest : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(folder_.path() / "log.jsonl", std::ios::app) << text; }

  test::TempDir folder_;
  RunLog log_{folder_.path()};
};

TEST_F(RunLogTest, FollowsALogThatGrowsInTheMiddleOfALine) {
  append(R"({"event": "step", "step": 10, "loss": 0.5}
{"event": "step", "step": 20, "lo)");
  EXPECT_TRUE(log_.update());
  EXPECT_EQ(log_.progress()["step"], 10);
  append("ss\": 0.25}\n");
  EXPECT_TRUE(log_.update());
  EXPECT_FALSE(log_.update());
  const auto curve = log_.curve("loss", {}, 0);
  EXPECT_EQ(curve["raw"]["steps"], (std::vector<int>{10, 20}));
  EXPECT_EQ(curve["raw"]["values"], (std::vector<double>{0.5, 0.25}));
  EXPECT_TRUE(curve["smooth"].is_null());
  EXPECT_EQ(log_.progress()["damaged"], 0);
}

TEST_F(RunLogTest, TellsTheTimeOfStepsFromTheEpochs) {
  append(R"({"event": "step", "step": 5, "loss": 1}
{"event": "epoch", "epoch": 1, "step": 10, "loss": 1, "seconds": 4, "metrics": {"accuracy": 0.5}}
{"event": "step", "step": 15, "loss": 1}
{"event": "epoch", "epoch": 2, "step": 20, "loss": 1, "seconds": 2}
{"event": "step", "step": 25, "loss": 1}
)");
  log_.update();
  EXPECT_EQ(log_.curve("loss", {}, 0)["raw"]["seconds"], (std::vector<double>{2, 5, 7}));
  EXPECT_EQ(log_.curve("metric.accuracy", {}, 0)["raw"]["values"], std::vector<double>{0.5});
  EXPECT_EQ(log_.events().size(), 2U);
}

TEST_F(RunLogTest, GoesOnWithStepsWhoseLossIsNull) {
  append(R"({"event": "step", "step": 10, "loss": 0.5, "lr": 0.1}
{"event": "step", "step": 20, "loss": null, "lr": 0.1}
{"event": "epoch", "epoch": 1, "step": 20, "loss": null, "seconds": null, "metrics": {"accuracy": null}}
{"event": "step", "step": 30, "loss": null, "lr": 0.1}
)");
  log_.update();
  EXPECT_EQ(log_.progress()["step"], 30);
  EXPECT_EQ(log_.progress()["damaged"], 0);
  EXPECT_EQ(log_.curve("loss", {}, 0)["raw"]["values"], std::vector<double>{0.5});
  EXPECT_TRUE(log_.events()[0]["metrics"]["accuracy"].is_null());
}

TEST_F(RunLogTest, NamesTheLossAndTheTasksMainMetricBeforeAllElseAndThePartsOfTheLossLast) {
  append(R"({"event": "step", "step": 5, "loss": 1, "lr": 0.1, "images_per_s": 9, "losses": {"bbox": 0.4, "vfl": 0.6}}
{"event": "epoch", "epoch": 1, "step": 10, "loss": 1, "lr": 0.1, "seconds": 4, "metrics": {"ap": 0.5, "AP50": 0.75, "a": 0}}
)");
  log_.update();
  const std::vector<std::string> expected = {"loss",         "metric.ap", "metric.AP50", "metric.a",    "epoch.loss",
                                             "images_per_s", "lr",        "epoch.lr",    "losses.bbox", "losses.vfl"};
  EXPECT_EQ(log_.names(), expected);
}

TEST_F(RunLogTest, KeepsTheLastEvaluationWhereLaterEpochsHaveNone) {
  EXPECT_TRUE(log_.evaluation().is_null());
  append(R"({"event": "epoch", "epoch": 1, "step": 10, "loss": 1, "metrics": {"ap": 0.5, "AP50": null}}
{"event": "epoch", "epoch": 2, "step": 20, "loss": 0.5}
)");
  log_.update();
  EXPECT_EQ(log_.evaluation(), nlohmann::json::parse(R"({"step": 10, "metrics": [["ap", 0.5], ["AP50", null]]})"));
}

TEST_F(RunLogTest, KeepsTheLastReportAndDamagedLinesHarmNothing) {
  append("{\"event\": \"report\", \"step\": 1, \"report\": {\"ranks\": [1]}}\nnonsense\n[]\n{\"event\": 7}\n");
  log_.update();
  EXPECT_EQ(log_.report()["ranks"][0], 1);
  EXPECT_EQ(log_.curve("loss", {}, 0.5)["total"], 0);
}

TEST_F(RunLogTest, ForgetsWhatAResumedRunHasCutOff) {
  append(
      "{\"event\": \"step\", \"step\": 10, \"loss\": 1, \"lr\": 0.5}\n{\"event\": \"step\", \"step\": 20, \"loss\": "
      "2}\n");
  log_.update();
  std::filesystem::resize_file(folder_.path() / "log.jsonl", 0);
  append("{\"event\": \"step\", \"step\": 5, \"loss\": 3}\n");
  log_.update();
  EXPECT_EQ(log_.curve("loss", {}, 0)["raw"]["steps"], std::vector<int>{5});
  EXPECT_EQ(log_.names(), std::vector<std::string>{"loss"});
}

class LineReaderTest : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(file_, std::ios::app) << text; }
  LineReader::Progress read(std::uint64_t most = 1 << 30) {
    return reader_.read(
        most, [this] { lines_.clear(); }, [this](std::string_view line) { lines_.emplace_back(line); });
  }

  test::TempDir folder_;
  std::filesystem::path file_ = folder_.path() / "log.jsonl";
  LineReader reader_{file_};
  std::vector<std::string> lines_;
};
using Lines = std::vector<std::string>;

TEST_F(LineReaderTest, WaitsForTheRestOfALine) {
  EXPECT_EQ(read().read, 0U);  // the file does not exist yet
  append("one\ntw");
  read();
  EXPECT_EQ(lines_, Lines({"one"}));
  append("o\n");
  read();
  EXPECT_EQ(lines_, Lines({"one", "two"}));
}

TEST_F(LineReaderTest, ReadsEachByteOnce) {
  append(std::string(3'000'000, 'x') + "\n");
  EXPECT_EQ(read().read, 3'000'001U);
  append("new\n");
  EXPECT_EQ(read().read, 4U);
  EXPECT_EQ(read().read, 0U);
  EXPECT_EQ(lines_.size(), 2U);
}

TEST_F(LineReaderTest, ReadsALargeFileOverSeveralCalls) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "0123456789\n";
  append(text);
  const auto first = read(1 << 20);
  EXPECT_FALSE(first.is_complete);
  EXPECT_LE(first.read, 1U << 20);
  while (!read(1 << 20).is_complete) continue;
  EXPECT_EQ(lines_.size(), 300'000U);
}

TEST_F(LineReaderTest, BeginsAnewWhereAResumedRunHasCutTheFile) {
  append("one\ntwo\nthree\nhalf a line");
  read();
  std::filesystem::resize_file(file_, 4);
  append("2\n");
  EXPECT_TRUE(read().restarted);
  EXPECT_EQ(lines_, Lines({"one", "2"}));
}

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

TEST(Timeline, PairsSectionsInsideEachOtherAndCollectivesThatOverlap) {
  flight::Snapshot ring;
  ring.events = {{.time_ns = 10, .type = EventType::kSectionBegin, .name = "step"},
                 {.time_ns = 20, .type = EventType::kSectionBegin, .name = "backward"},
                 {.time_ns = 30, .type = EventType::kCollectiveBegin, .name = "all_reduce", .sequence = 1, .bucket = 0},
                 {.time_ns = 40, .type = EventType::kCollectiveBegin, .name = "all_reduce", .sequence = 2, .bucket = 1},
                 {.time_ns = 50, .type = EventType::kCollectiveEnd, .name = "all_reduce", .sequence = 1},
                 {.time_ns = 60, .type = EventType::kCollectiveFailed, .name = "all_reduce", .sequence = 2},
                 {.time_ns = 70, .type = EventType::kSectionEnd, .name = "backward"}};
  const auto spans = spans_of(ring, 0, 100);
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].begin_ns, 30);
  EXPECT_EQ(spans[0].end_ns, 50);
  EXPECT_EQ(spans[0].kind, 1);
  EXPECT_EQ(spans[1].kind, 2);
  EXPECT_EQ(spans[1].bucket, 1);
  EXPECT_EQ(spans[2].name, "backward");
  EXPECT_EQ(spans[2].depth, 1);
  EXPECT_TRUE(spans[3].is_open);
  EXPECT_EQ(spans[3].end_ns, 100);
}

TEST(Timeline, EndsTheSectionOfThatNameWhereAnotherThreadHasBegunOne) {
  flight::Snapshot ring;
  ring.events = {{.time_ns = 10, .type = EventType::kSectionBegin, .name = "forward"},
                 {.time_ns = 20, .type = EventType::kSectionBegin, .name = "save"},
                 {.time_ns = 30, .type = EventType::kSectionEnd, .name = "forward"}};
  const auto spans = spans_of(ring, 0, 100);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_EQ(spans[0].end_ns, 30);
  EXPECT_EQ(spans[1].name, "save");
  EXPECT_TRUE(spans[1].is_open);
}

TEST(Timeline, LeavesOutWhatIsTooOldAndWhatHasNoBegin) {
  flight::Snapshot ring;
  ring.events = {{.time_ns = 5, .type = EventType::kSectionEnd, .name = "forward"},
                 {.time_ns = 6, .type = EventType::kCollectiveEnd, .name = "barrier", .sequence = 9},
                 {.time_ns = 10, .type = EventType::kSectionBegin, .name = "a"},
                 {.time_ns = 20, .type = EventType::kSectionEnd, .name = "a"}};
  EXPECT_EQ(spans_of(ring, 0, 100).size(), 1U);
  EXPECT_TRUE(spans_of(ring, 21, 100).empty());
}

}  // namespace run_log_test
}  // namespace lockstep::dashboard
