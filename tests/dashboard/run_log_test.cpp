// SPDX-License-Identifier: Apache-2.0
#include "dashboard/run_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace lockstep::dashboard {
namespace run_log_test {

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

}  // namespace run_log_test
}  // namespace lockstep::dashboard
