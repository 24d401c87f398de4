// SPDX-License-Identifier: Apache-2.0
#include "train/report/run_log.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace run_log_test {

constexpr const char* kUpToTwo = R"({"event": "start", "step": 9}
{"event": "step", "step": 1, "loss": 0.5}
{"event": "step", "step": 2, "loss": null}
{"event": "epoch", "epoch": 1, "step": 2}
)";

constexpr const char* kLater = R"({"event": "step", "step": 3, "loss": 0.25}
{"event": "epoch", "epoch": 2, "step": 4}
{"event": "report", "epoch": 2, "step": 4, "report": {}}
{"event": "resume", "step": 3}
)";

TEST(RunLog, LaterStepsEpochsAndResumesGoAndTheRestStays) {
  const KeptLog kept = keep_log_up_to(std::string(kUpToTwo) + kLater, 2);
  EXPECT_EQ(kept.text, kUpToTwo);
  EXPECT_EQ(kept.damaged, 0);
}

TEST(RunLog, EventsWithoutAStepAreNoneOfALaterOne) {
  const std::string lines = "{\"event\": \"step\"}\n{\"step\": 7}\n{\"event\": \"epoch\", \"step\": \"7\"}\n";
  EXPECT_EQ(keep_log_up_to(lines, 0).text, lines);
}

TEST(RunLog, ATornLastLineGoes) {
  const KeptLog kept = keep_log_up_to(std::string(kUpToTwo) + R"({"event": "step", "st)", 2);
  EXPECT_EQ(kept.text, kUpToTwo);
  EXPECT_EQ(kept.damaged, 1);
}

TEST(RunLog, AWholeLastLineGetsTheNewlineThatTheKillTook) {
  const std::string whole = kUpToTwo;
  const KeptLog kept = keep_log_up_to(whole.substr(0, whole.size() - 1), 2);
  EXPECT_EQ(kept.text, whole);
  EXPECT_EQ(kept.damaged, 0);
}

TEST(RunLog, WhatIsNoObjectIsCountedWhereverItStands) {
  const KeptLog kept = keep_log_up_to("[1]\n\n" + std::string(kUpToTwo) + "{]\n", 2);
  EXPECT_EQ(kept.text, kUpToTwo);
  EXPECT_EQ(kept.damaged, 3);
}

TEST(RunLog, AnEmptyLogStaysEmpty) { EXPECT_EQ(keep_log_up_to("", 0).text, ""); }

}  // namespace run_log_test
}  // namespace lockstep::train
