// SPDX-License-Identifier: Apache-2.0
// The group of nodes as a pure function of time and events: no test sleeps.
#include "launch/nodes/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "launch/group_fixture.h"
#include "launch/nodes/members.h"

namespace lockstep::launch {
namespace group_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(GroupTest, RanksThatLeaveAsTheyWereToldEndTheJobWithoutABlameAndWithoutARestart) {
  options_.max_restarts = 3;
  use_range(2, 2);
  join("a", 0);
  join("b", 1);
  ASSERT_EQ(next().kind, Kind::kStart);
  end_by_request({"a", "b"});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_TRUE(last.is_graceful);
  EXPECT_EQ(last.code, 143);
  EXPECT_THAT(last.reason, HasSubstr("stopped on request"));
}

TEST_F(GroupTest, OfAFixedSizeStartsWhenEveryNodeIsThereInTheOrderOfItsNodeRanks) {
  use_range(3, 3);
  join("c", 2);
  join("a", 0);
  EXPECT_EQ(next().kind, Kind::kWait);
  EXPECT_EQ(missing_text(state_, options_), "node 1 of 3");
  join("b", 1);
  const Decision start = next();
  EXPECT_EQ(start.kind, Kind::kStart);
  EXPECT_THAT(start.ids, ElementsAre("a", "b", "c"));
  EXPECT_EQ(state_.round, 0);
}

TEST_F(GroupTest, OfARangeWaitsALastCallForMoreThanItNeeds) {
  use_range(2, 4);
  join("a");
  EXPECT_EQ(next().next, now_ + options_.join_timeout);
  join("b");
  EXPECT_EQ(next().next, now_ + options_.last_call);
  wait(seconds(20));
  join("c");
  EXPECT_EQ(next().next, now_ + options_.last_call) << "who comes makes it wait for another one";
  wait(seconds(30));
  EXPECT_THAT(next().ids, ElementsAre("a", "b", "c"));
}

TEST_F(GroupTest, OfARangeStartsAtOnceWhenItIsFull) {
  use_range(1, 2);
  join("b");
  join("a");
  EXPECT_THAT(next().ids, ElementsAre("a", "b")) << "the agent that serves the store is node 0";
}

TEST_F(GroupTest, GivesUpWithTheNodesThatDidNotJoin) {
  use_range(3, 3);
  join("a", 0);
  wait(options_.join_timeout);
  const Decision decision = next();
  EXPECT_EQ(decision.kind, Kind::kRefuse);
  EXPECT_EQ(decision.cause->type, "TimeoutError");
  EXPECT_EQ(decision.cause->message, "nodes 1, 2 of 3 did not join within 10:00");
  EXPECT_EQ(next().kind, Kind::kWait) << "no node is left to answer";
}

TEST_F(GroupTest, RefusesANodeRankThatIsTakenAndANodeWithAnotherSize) {
  use_range(2, 2);
  join("a", 0);
  join("b", 0);
  const Decision twice = next();
  EXPECT_EQ(twice.kind, Kind::kRefuse);
  EXPECT_THAT(twice.ids, ElementsAre("b"));
  EXPECT_EQ(twice.reason, "two agents have --node-rank 0");
  options_.max_nodes = options_.min_nodes = 3;
  join("c", 1);
  options_.max_nodes = options_.min_nodes = 2;
  EXPECT_EQ(next().reason, "node 1 was started with --nnodes 3, but node 0 with 2");
}

TEST_F(GroupTest, EndsWithZeroWhenEveryNodeDid) {
  start_four();
  for (const char* name : {"a", "b", "c"}) end(name, {.is_success = true});
  EXPECT_EQ(next().kind, Kind::kWait);
  end("d", {.is_success = true});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 0);
}

TEST_F(GroupTest, GoesOnWithoutALostNodeAndWithoutWaitingForAnother) {
  start_four();
  lose("c");
  const Decision stop = next();
  EXPECT_EQ(stop.kind, Kind::kStop);
  EXPECT_FALSE(stop.is_graceful);
  EXPECT_THAT(stop.cause->message, HasSubstr("node 2 (host-c, rank 2) is lost"));
  EXPECT_THAT(stop.ids, ElementsAre("a", "b", "d"));
  end_as_consequence({"a", "b", "d"});
  const Decision again = next();
  EXPECT_EQ(again.kind, Kind::kAgain);
  EXPECT_FALSE(again.is_restart) << "nodes of a range come and go";
  EXPECT_EQ(again.cause->kind, FailureKind::kLost);
  EXPECT_THAT(next().ids, ElementsAre("a", "b", "d"));
  EXPECT_EQ(state_.round, 1);
}

TEST_F(GroupTest, NamesTheFirstOfTwoLostNodesAndNoRankThatWaitedForThem) {
  start_four();
  lose("b");
  EXPECT_EQ(next().kind, Kind::kStop);
  end_as_consequence({"a", "d"});
  EXPECT_EQ(next().kind, Kind::kWait) << "node 2 may still say why";
  lose("c", "silent");
  const Decision again = next();
  EXPECT_THAT(again.cause->message, HasSubstr("node 1 (host-b"));
  EXPECT_THAT(next().ids, ElementsAre("a", "d"));
}

TEST_F(GroupTest, BlamesALostNodeAlsoWhereAnotherLibraryFailedOfItFirst) {
  start_four();
  end("a",
      {.code = 1,
       .cause = FailureRecord{
           .kind = FailureKind::kDied, .message = "exit code 1", .rank = 0, .time_ns = 9'000'000'000'000'000'000}});
  EXPECT_EQ(next().kind, Kind::kStop);
  end_as_consequence({"b", "d"});
  lose("c");
  EXPECT_EQ(next().cause->kind, FailureKind::kLost);
}

TEST_F(GroupTest, OfAFixedSizeWaitsForALostNodeWithinItsBudget) {
  use_range(2, 2);
  options_.max_restarts = 1;
  join("a", 0);
  join("b", 1);
  (void)next();
  lose("b");
  (void)next();
  end_as_consequence({"a"});
  const Decision again = next();
  EXPECT_EQ(again.reason, "restart 1 of 1");
  EXPECT_EQ(next().kind, Kind::kWait);
  EXPECT_EQ(missing_text(state_, options_), "node 1 of 2");
  wait(seconds(5));
  join("b2", 1);
  EXPECT_THAT(next().ids, ElementsAre("a", "b2"));
  lose("b2");
  (void)next();
  end_as_consequence({"a"});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 75);
  EXPECT_EQ(last.cause->kind, FailureKind::kLost);
}

TEST_F(GroupTest, GivesUpWithTheLostNodeWhereNobodyTakesItsPlace) {
  use_range(2, 2);
  options_.max_restarts = 3;
  join("a", 0);
  join("b", 1);
  (void)next();
  lose("b");
  (void)next();
  end_as_consequence({"a"});
  (void)next();
  wait(options_.join_timeout);
  const Decision last = next();
  EXPECT_EQ(last.code, 75);
  EXPECT_THAT(last.cause->message, HasSubstr("went down; node 1 of 2 did not join within 10:00"));
}

TEST_F(GroupTest, RestartsAfterAFailureWithinItsBudgetAndThenEndsWithItsCode) {
  start_four();
  options_.max_restarts = 1;
  for (const bool is_last : {false, true}) {
    end("b", {.code = 3, .cause = failure(1)});
    EXPECT_THAT(next().ids, ElementsAre("a", "c", "d"));
    end_as_consequence({"a", "c", "d"});
    const Decision decision = next();
    EXPECT_EQ(decision.cause->rank, 1);
    EXPECT_EQ(decision.kind, is_last ? Kind::kEnd : Kind::kAgain);
    EXPECT_EQ(decision.code, is_last ? 3 : 0);
    if (!is_last) {
      EXPECT_EQ(next().kind, Kind::kStart);
    }
  }
}

TEST_F(GroupTest, ARankThatWasLateIsToBlameAndNotTheOneThatGaveUpFirst) {
  start_four();
  FailureRecord late = failure(2);
  late.kind = FailureKind::kHang;
  end("a", {.code = 76, .cause = failure(0)});
  (void)next();
  end("c", {.code = 76, .cause = late});
  end_as_consequence({"b", "d"});
  const Decision last = next();
  EXPECT_EQ(last.cause->rank, 2);
  EXPECT_EQ(last.code, 76);
}

TEST_F(GroupTest, RanksThatEndedWithoutAnErrorAreToBlameWhereTheOthersOnlyNameADeadPeer) {
  start_four();
  end("b", {.is_success = true, .place = " in backward of step 7"});
  end_as_consequence({"a", "c", "d"});
  const Decision last = next();
  EXPECT_EQ(last.cause->rank, 1);
  EXPECT_EQ(last.cause->message,
            "rank 1 on host-b left: its program has ended in backward of step 7, but other ranks "
            "still called collectives");
  EXPECT_EQ(last.code, 75);
}

TEST_F(GroupTest, EndsWithAnErrorThatWouldComeAgain) {
  start_four();
  options_.max_restarts = 5;
  end("b", {.code = 64, .cause = failure(1, "UsageError")});
  (void)next();
  end_as_consequence({"a", "c", "d"});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 64);
  EXPECT_EQ(last.reason, "no restart: a UsageError would occur again");
}

TEST_F(GroupTest, BelievesTheRanksClaimBeforeTheOrderOfTheEnds) {
  start_four();
  end("c", {.code = 9, .cause = failure(2)});
  end("b", {.code = 3, .cause = failure(1)});
  end_as_consequence({"a", "d"});
  state_.claim = failure(1);
  const Decision last = next();
  EXPECT_EQ(last.cause->rank, 1);
  EXPECT_EQ(last.code, 3);
}

TEST_F(GroupTest, TakesANodeInAfterTheNextCheckpoint) {
  use_range(1, 4);
  join("a");
  wait(options_.last_call);
  ASSERT_EQ(next().kind, Kind::kStart);
  wait(seconds(100));
  join("b");
  observe_saves(state_, 7);
  EXPECT_EQ(next().kind, Kind::kWait);
  wait(seconds(100));
  observe_saves(state_, 7);
  EXPECT_EQ(next().kind, Kind::kWait);
  observe_saves(state_, 8);
  const Decision stop = next();
  EXPECT_EQ(stop.kind, Kind::kStop);
  EXPECT_TRUE(stop.is_graceful);
  end("a", {.left_by_request = true, .is_consequence = true, .code = 143, .cause = failure(0)});
  EXPECT_EQ(next().kind, Kind::kAgain);
  EXPECT_THAT(next().ids, ElementsAre("a", "b"));
}

TEST_F(GroupTest, TakesANodeInAtOnceByChoice) {
  use_range(1, 4);
  options_.take_in = TakeIn::kAtOnce;
  join("a");
  wait(options_.last_call);
  ASSERT_EQ(next().kind, Kind::kStart);
  join("b");
  EXPECT_TRUE(next().is_graceful);
}

TEST_F(GroupTest, TakesANodeInAfterAWhileWhereTheProgramCountsNoCheckpoints) {
  use_range(1, 4);
  join("a");
  wait(options_.last_call);
  ASSERT_EQ(next().kind, Kind::kStart);
  join("b");
  const Decision wait_first = next();
  EXPECT_EQ(wait_first.kind, Kind::kWait);
  now_ = wait_first.next;
  EXPECT_TRUE(next().is_graceful);
}

TEST_F(GroupTest, EndsWellWhereTheProgramEndsWhileANodeIsTakenIn) {
  use_range(1, 4);
  options_.take_in = TakeIn::kAtOnce;
  join("a");
  wait(options_.last_call);
  (void)next();
  join("b");
  (void)next();
  end("a", {.is_success = true});
  const Decision last = next();
  EXPECT_EQ(last.kind, Kind::kEnd);
  EXPECT_EQ(last.code, 0);
  EXPECT_THAT(last.ids, ElementsAre("a", "b")) << "a waiting node gets the answer, too";
}

TEST_F(GroupTest, KeepsASpareNodeUntilAPlaceIsFree) {
  use_range(1, 2);
  for (const char* name : {"a", "b", "c"}) join(name);
  EXPECT_THAT(next().ids, ElementsAre("a", "b"));
  wait(seconds(1000));
  EXPECT_EQ(next().kind, Kind::kWait);
  EXPECT_THAT(held_["c"], HasSubstr("the job runs on 2 nodes, as many as --nnodes 1:2 allows: this node is a spare"));
  lose("b");
  (void)next();
  end_as_consequence({"a"});
  (void)next();
  EXPECT_THAT(next().ids, ElementsAre("a", "c"));
}

TEST_F(GroupTest, OfARangeIsAsWideAsItMayBecomeHoweverFewNodesBeginIt) {
  use_range(1, 3);
  have_ranks(4);
  join("a");
  have_ranks(8);
  join("b");
  wait(options_.last_call);
  const Decision start = next();
  EXPECT_EQ(start.max_world_size, 4 + 8 + 8) << "the third may have as many as the largest";
  EXPECT_EQ(start.min_world_size, 4);
  EXPECT_EQ(state_.max_world_size, 20);
  lose("b");
  (void)next();
  end_as_consequence({"a"});
  (void)next();
  ASSERT_EQ(next().kind, Kind::kStart);
  EXPECT_EQ(state_.max_world_size, 20) << "a run keeps the replicas that it began with";
}

TEST_F(GroupTest, OfAFixedSizeIsAsWideAsItIs) {
  use_range(2, 2);
  join("a", 0);
  join("b", 1);
  const Decision start = next();
  EXPECT_EQ(start.max_world_size, 2);
  EXPECT_EQ(start.min_world_size, 0);
}

TEST_F(GroupTest, TakesInNoNodeForWhichTheRunHasNoReplicas) {
  use_range(1, 4);
  have_ranks(2);
  join("a");
  join("b");
  wait(options_.last_call);
  ASSERT_EQ(next().kind, Kind::kStart);
  observe_replicas(state_, 5);
  join("c");
  EXPECT_FALSE(has_joiners(state_, options_));
  EXPECT_EQ(next().kind, Kind::kWait);
  EXPECT_THAT(held_["c"],
              HasSubstr("the run has 5 replicas on 4 ranks, and each rank needs one: this node is a spare"));
  have_ranks(1);
  join("d");
  EXPECT_TRUE(has_joiners(state_, options_)) << "for a smaller one there is work";
  (void)next();
  EXPECT_THAT(held_["d"], HasSubstr("the job runs on 2 nodes: this node joins it at the next checkpoint"));
  lose("b");
  (void)next();
  end_as_consequence({"a"});
  (void)next();
  EXPECT_THAT(next().ids, ElementsAre("a", "c", "d")) << "a spare takes the place of one that is lost";
}

TEST_F(GroupTest, StartsAgainWithFewerNodesWhereTheRunHasTooFewReplicas) {
  start_four();
  observe_replicas(state_, 2);
  end_by_request({"a", "b", "c", "d"});
  const Decision again = next();
  EXPECT_EQ(again.kind, Kind::kAgain);
  EXPECT_FALSE(again.cause) << "no node failed";
  EXPECT_FALSE(again.is_restart);
  EXPECT_EQ(again.reason, "the run has 2 replicas for 4 ranks: nodes without work wait as spares");
  EXPECT_THAT(next().ids, ElementsAre("a", "b"));
  EXPECT_EQ(next().kind, Kind::kWait);
  EXPECT_THAT(held_["c"], HasSubstr("the run has 2 replicas on 2 ranks"));
}

TEST_F(GroupTest, TakesSmallerNodesWhereThoseInFrontLeaveTooFewReplicas) {
  use_range(3, 4);
  for (const auto& [name, ranks] : {std::pair("a", 1), std::pair("b", 4), std::pair("c", 1), std::pair("d", 1)}) {
    have_ranks(ranks);
    join(name);
  }
  observe_replicas(state_, 5);
  EXPECT_THAT(next().ids, ElementsAre("a", "c", "d"));
}

TEST_F(GroupTest, LetsTheRanksSayThatTheReplicasAreTooFewForAnyOfItsSizes) {
  use_range(2, 4);
  for (const char* name : {"a", "b", "c"}) join(name);
  wait(options_.last_call);
  observe_replicas(state_, 1);
  const Decision start = next();
  EXPECT_THAT(start.ids, ElementsAre("a", "b", "c"));
  EXPECT_EQ(start.min_world_size, 2) << "by which they know that fewer cannot go on";
}

}  // namespace group_test
}  // namespace lockstep::launch
