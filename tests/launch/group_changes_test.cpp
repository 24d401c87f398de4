// SPDX-License-Identifier: Apache-2.0
// The members of a group after a round: hosts that come back, nodes that are asked to leave, hosts with errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "launch/group_fixture.h"

namespace lockstep::launch {
namespace group_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(GroupTest, GivesAHostThatComesBackItsOldPlace) {
  start_four();
  lose("b");
  (void)next();
  end_as_consequence({"a", "c", "d"});
  (void)next();
  EXPECT_THAT(next().ids, ElementsAre("a", "c", "d"));
  options_.take_in = TakeIn::kAtOnce;
  join("b2");
  (void)next();
  for (const char* name : {"a", "c", "d"}) {
    end(name, {.left_by_request = true, .is_consequence = true, .code = 143, .cause = failure(rank_of(name))});
  }
  (void)next();
  EXPECT_THAT(next().ids, ElementsAre("a", "b2", "c", "d"));
}

TEST_F(GroupTest, OfAStoreThatCameBackWaitsForThoseWhoKnowTheLastRound) {
  use_range(1, 4);
  join("a");
  join("b", -1, {"host-a", "host-b", "host-c"});
  EXPECT_EQ(next().kind, Kind::kWait);
  join("c", -1, {"host-a", "host-b", "host-c"});
  EXPECT_THAT(next().ids, ElementsAre("a", "b", "c"));
  EXPECT_EQ(state_.round, 5) << "the round after theirs, so that programs resume";
}

TEST_F(GroupTest, RefusesASurplusNodeOfAFixedGroupOnceItsTwinIsKnownToLive) {
  use_range(2, 2);
  options_.max_restarts = 1;
  join("a", 0);
  join("b", 1);
  (void)next();
  join("b2", 1);
  const Decision decision = next();
  EXPECT_EQ(decision.kind, Kind::kWait);
  now_ = decision.next;
  EXPECT_EQ(next().kind, Kind::kRefuse);
}

TEST_F(GroupTest, OfAFixedSizeEndsWhenANodeIsToldTo) {
  use_range(2, 2);
  join("a", 0);
  join("b", 1);
  (void)next();
  end("b", {.interrupted_by = SIGINT, .code = 130});
  leave("b", SIGINT);
  EXPECT_EQ(next().kind, Kind::kStop);
  end("a", {.left_by_request = true, .is_consequence = true, .code = 143, .cause = failure(0)});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 130);
}

TEST_F(GroupTest, OfARangeGoesOnWithoutANodeThatIsPreempted) {
  start_four();
  end("d", {.interrupted_by = SIGTERM, .left_by_request = true, .code = 143});
  leave("d", SIGTERM);
  EXPECT_EQ(next().kind, Kind::kStop);
  for (const char* name : {"a", "b", "c"}) {
    end(name, {.left_by_request = true, .is_consequence = true, .code = 143, .cause = failure(rank_of(name))});
  }
  EXPECT_EQ(next().kind, Kind::kAgain);
  EXPECT_THAT(next().ids, ElementsAre("a", "b", "c"));
}

TEST_F(GroupTest, EndsWithAnErrorThatWouldRecurEvenIfItsNodeIsAskedToLeaveAfterIt) {
  for (const char* name : {"a", "d"}) {
    state_ = GroupState{now_};
    start_four();
    options_.max_restarts = 5;
    end(name,
        {.interrupted_by = name[0] == 'd' ? SIGTERM : 0, .code = 65, .cause = failure(rank_of(name), "DataError")});
    if (name[0] == 'a') leave(name, SIGTERM);  // its agent had reported the end
    EXPECT_EQ(next().kind, Kind::kStop);
    std::vector<std::string> others{"a", "b", "c", "d"};
    std::erase(others, name);
    end_as_consequence(others);
    const Decision last = next();
    EXPECT_EQ(last.kind, Kind::kEnd) << name;
    EXPECT_EQ(last.code, 65) << name;
    EXPECT_EQ(last.reason, "no restart: a DataError would occur again") << name;
  }
}

TEST_F(GroupTest, EndsWithAPublishedErrorThatWouldRecurIfItsNodeHasLeft) {
  start_four();
  options_.max_restarts = 5;
  state_.claim = failure(rank_of("d"), "DataError");
  leave("d", SIGTERM);
  EXPECT_EQ(next().kind, Kind::kStop);
  end_as_consequence({"a", "b", "c"});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 65);
}

TEST_F(GroupTest, EndsWhenItsServerIsToldToAfterItsRanksHaveFailed) {
  start_four();
  options_.max_restarts = 5;
  end("a", {.code = 3, .cause = failure(rank_of("a"))});
  leave("a", SIGTERM);
  EXPECT_EQ(next().kind, Kind::kStop);
  end_as_consequence({"b", "c", "d"});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 143);
}

TEST_F(GroupTest, OfARangeGoesOnWithoutTheHostThatComputedWrongNumbers) {
  start_four();
  end_as_corrupt({"a", "b", "c", "d"}, rank_of("c"));
  const Decision again = next();
  EXPECT_EQ(again.kind, Kind::kAgain);
  EXPECT_FALSE(again.is_restart);
  const Decision refusal = next();
  EXPECT_EQ(refusal.kind, Kind::kRefuse);
  EXPECT_THAT(refusal.ids, ElementsAre("c"));
  EXPECT_EQ(refusal.cause->type, "CorruptionError");
  EXPECT_EQ(refusal.reason, "host-c is excluded: its rank 2 computed wrong numbers");
  EXPECT_THAT(next().ids, ElementsAre("a", "b", "d"));
  join("c2");  // as if a supervisor had restarted its agent
  EXPECT_EQ(next().kind, Kind::kRefuse);
  EXPECT_EQ(next().kind, Kind::kWait) << "the others train on";
}

TEST_F(GroupTest, WithoutAHostToSpareCountsARestartAfterWrongNumbers) {
  options_.max_restarts = 1;
  use_range(2, 2);
  join("a", 0);
  join("b", 1);
  ASSERT_EQ(next().kind, Kind::kStart);
  end_as_corrupt({"a", "b"}, 1);
  const Decision fixed = next();
  EXPECT_EQ(fixed.kind, Kind::kAgain);
  EXPECT_TRUE(fixed.is_restart);
  ASSERT_EQ(next().kind, Kind::kStart);
  end_as_corrupt({"a", "b"}, 1);
  EXPECT_EQ(next().code, 77);
}

TEST_F(GroupTest, KeepsTheNodeThatServesTheStoreAfterWrongNumbers) {
  options_.max_restarts = 1;
  start_four();
  end_as_corrupt({"a", "b", "c", "d"}, rank_of("a"));
  EXPECT_TRUE(next().is_restart);
  EXPECT_THAT(next().ids, ElementsAre("a", "b", "c", "d"));
}

TEST_F(GroupTest, EndsWhenItsServerIsToldToWhileItWaits) {
  use_range(2, 2);
  join("a", 0);
  leave("a", SIGTERM);
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 143);
}

}  // namespace group_test
}  // namespace lockstep::launch
