// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/restart.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace restart_test {

TEST(Restart, NeedsABudget) {
  EXPECT_FALSE(decide_restart({.max_restarts = 0}).restart);
  EXPECT_TRUE(decide_restart({.max_restarts = 1}).restart);
  EXPECT_TRUE(decide_restart({.restarts_done = 2, .max_restarts = 3}).restart);
  EXPECT_FALSE(decide_restart({.restarts_done = 3, .max_restarts = 3}).restart);
}

TEST(Restart, ErrorsThatWouldComeAgainVeto) {
  for (const char* type : {"UsageError", "DataError", "InternalError"}) {
    const auto decision = decide_restart({.error_type = type, .max_restarts = 3});
    EXPECT_FALSE(decision.restart) << type;
    EXPECT_NE(decision.reason.find(type), std::string::npos);
  }
}

TEST(Restart, AFullOrReadOnlyDiskVetoes) {
  const RestartFacts facts{.error_type = "IoError",
                           .error_text = "IoError: cannot write /r/log.jsonl: No space left on device",
                           .max_restarts = 3};
  EXPECT_FALSE(decide_restart(facts).restart);
  RestartFacts other = facts;
  other.error_text = "IoError: cannot read /r/x: Input/output error";
  EXPECT_TRUE(decide_restart(other).restart);
}

TEST(Restart, OtherErrorsAndForeignProgramsRestart) {
  for (const char* type :
       {"", "IoError", "PeerError", "TimeoutError", "ResourceError", "ProgramError", "SIGSEGV", "KeyError"}) {
    EXPECT_TRUE(decide_restart({.error_type = type, .max_restarts = 3}).restart) << type;
  }
}

TEST(Restart, NotWhenAskedToStop) {
  EXPECT_FALSE(decide_restart({.was_interrupted = true, .max_restarts = 3}).restart);
}

TEST(Restart, EveryDecisionHasAReason) {
  EXPECT_EQ(decide_restart({.restarts_done = 1, .max_restarts = 3}).reason, "restart 2 of 3");
  EXPECT_FALSE(decide_restart({}).reason.empty());
}

}  // namespace restart_test
}  // namespace lockstep
