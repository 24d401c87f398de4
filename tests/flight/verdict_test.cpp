// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::flight {
namespace verdict_test {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

RankFacts rank(int number, char state = 'S') {
  return {.rank = number,
          .host = "host",
          .ring = Snapshot{.rank = number, .world_size = 3, .step = 418},
          .process = {.state = state}};
}

// It has begun that collective at 10 s.
RankFacts waiting(int number, std::uint64_t sequence = 9) {
  RankFacts facts = rank(number);
  facts.ring->lanes = {{.name = "all_reduce",
                        .started = sequence,
                        .finished = sequence - 1,
                        .started_ns = 10 * kSecond,
                        .bucket = 2,
                        .buckets = 7}};
  return facts;
}

RankFacts late(int number, char state, const std::string& section) {
  RankFacts facts = rank(number, state);
  facts.ring->lanes = {{.name = "all_reduce", .started = 8, .finished = 8, .started_ns = 9 * kSecond}};
  facts.ring->sections = {{.name = section, .since_ns = 9 * kSecond}};
  return facts;
}

std::optional<Verdict> verdict_of(const std::vector<RankFacts>& facts) { return judge(facts, 15 * kSecond); }

TEST(Verdict, NamesAStoppedRankItsPlaceAndWhoWaits) {
  const auto verdict = verdict_of({waiting(0), waiting(1), late(2, 'T', "backward")});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_EQ(verdict->cause, Cause::kStopped);
  EXPECT_EQ(verdict->text,
            "rank 2 hangs: stopped by SIGSTOP (or SIGTSTP) in backward of step 418 since 5.0 s; ranks 0, 1 wait in "
            "all_reduce (bucket 3 of 7)");
}

TEST(Verdict, TellsWhatALateRankDoes) {
  const auto text = [](const RankFacts& facts) { return verdict_of({waiting(0), facts})->text; };
  EXPECT_THAT(text(late(1, 'D', "save")), HasSubstr("in uninterruptible sleep in save"));
  EXPECT_THAT(text(late(1, 'R', "forward")), HasSubstr("it computes in forward"));
  EXPECT_THAT(text(late(1, 'S', "forward")), HasSubstr("it sleeps in forward"));
  EXPECT_THAT(text(late(1, 'S', "DataLoader::next")), HasSubstr("it waits for data"));
  RankFacts swapped = late(1, 'S', "forward");
  swapped.process.swapped = 3U << 30U;
  swapped.process.resident = 1U << 20U;
  EXPECT_THAT(text(swapped), HasSubstr("swapped out"));
}

TEST(Verdict, NamesARankWhoseProgramHasEnded) {
  RankFacts gone = late(1, '?', "forward");
  gone.process.has_ended = true;
  gone.ring->sections.clear();
  const auto verdict = verdict_of({waiting(0), gone, waiting(2)});
  EXPECT_EQ(verdict->cause, Cause::kLeft);
  EXPECT_THAT(verdict->text, HasSubstr("rank 1 left: its program has ended"));
}

TEST(Verdict, OfSeveralLateRanksTheStoppedOneIsToBlame) {
  const auto verdict = verdict_of({late(0, 'R', "forward"), waiting(1), late(2, 'T', "forward")});
  EXPECT_EQ(verdict->rank, 2);
}

RankFacts in_state(char state, RankFacts facts) {
  facts.process.state = state;
  return facts;
}

TEST(Verdict, NamesARankThatIsStoppedInsideTheCollectiveInWhichTheOthersWait) {
  const auto verdict = verdict_of({waiting(0), waiting(1), in_state('T', waiting(2))});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_EQ(verdict->text,
            "rank 2 hangs: stopped by SIGSTOP (or SIGTSTP) in step 418 since 5.0 s; ranks 0, 1 wait in all_reduce "
            "(bucket 3 of 7)");
  EXPECT_EQ(verdict_of({in_state('t', waiting(0)), waiting(1)})->rank, 0) << "or held by a debugger";
}

TEST(Verdict, NamesAStoppedRankAlsoWhereItsOwnCountIsHigher) {
  const auto verdict = verdict_of({waiting(0), waiting(1), in_state('T', waiting(2, 20))});
  ASSERT_TRUE(verdict) << "messages between two ranks have counts of their own";
  EXPECT_EQ(verdict->rank, 2);
}

TEST(Verdict, AStoppedRankIsToBlameMoreThanOneThatHasNotCome) {
  EXPECT_EQ(verdict_of({late(0, 'R', "forward"), waiting(1), in_state('T', waiting(2))})->rank, 2);
}

TEST(Verdict, NamesARankThatADiskHoldsInsideWhereAllHaveCome) {
  EXPECT_EQ(verdict_of({waiting(0), in_state('D', waiting(1)), waiting(2)})->rank, 1);
  EXPECT_EQ(verdict_of({late(0, 'R', "forward"), in_state('D', waiting(1)), waiting(2)})->rank, 0)
      << "who has not come is waited for";
  EXPECT_FALSE(verdict_of({waiting(0), in_state('D', waiting(1))})) << "the third rank is another node's";
}

TEST(Verdict, NamesAStoppedRankWhereNoRingSaysThatOthersWait) {
  RankFacts starts{.rank = 0, .host = "host", .process = {.state = 'S'}};
  RankFacts stopped{.rank = 1, .host = "host", .process = {.state = 'T'}};
  const auto verdict = verdict_of({starts, stopped});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->text, "rank 1 hangs: stopped by SIGSTOP (or SIGTSTP); other ranks gave up waiting");
}

TEST(Verdict, RanksThatGaveUpAndEndedWaitedAllTheSame) {
  RankFacts gave_up = waiting(0);
  gave_up.process = {.has_ended = true};
  EXPECT_EQ(verdict_of({gave_up, late(1, 'R', "forward")})->rank, 1);
}

TEST(Verdict, ARankThatHasFinishedTheCollectiveIsNotLate) {
  RankFacts ahead = waiting(0, 10);
  ahead.ring->lanes[0].started_ns = 11 * kSecond;
  const auto verdict = verdict_of({ahead, waiting(1, 9), late(2, 'T', "forward")});
  EXPECT_EQ(verdict->rank, 2);
}

TEST(Verdict, ThereIsNoneWhereNobodyWaits) {
  EXPECT_FALSE(verdict_of({}));
  EXPECT_FALSE(verdict_of({rank(0), rank(1)}));
  EXPECT_FALSE(verdict_of({waiting(0), waiting(1)})) << "all of them are in it: the rank that is missing is elsewhere";
}

TEST(Verdict, WhereOthersWaitOnAnotherHostItIsTheRankThatIsInNoCollective) {
  const Waiter waiter{.rank = 3, .host = "gpu-b", .operation = "all_reduce"};
  RankFacts late_one = late(1, 'R', "forward");
  late_one.ring->last_event_ns = 9 * kSecond;
  const auto verdict = judge_for(waiter, {waiting(0), late_one}, 15 * kSecond);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->text,
            "rank 1 hangs: it computes in forward of step 418 since 6.0 s; rank 3 on gpu-b waits in all_reduce");
  EXPECT_FALSE(judge_for(waiter, {waiting(0), waiting(1)}, 15 * kSecond)) << "both wait, too";
  RankFacts stopped = waiting(1);
  stopped.process.state = 'T';
  EXPECT_EQ(judge_for(waiter, {waiting(0), stopped}, 15 * kSecond)->rank, 1) << "it cannot go on";
}

TEST(Verdict, ARankWithoutARingIsJudgedByItsProcess) {
  RankFacts unknown{.rank = 1, .host = "host", .process = {.state = 'T'}};
  EXPECT_THAT(verdict_of({waiting(0), unknown})->text,
              HasSubstr("rank 1 hangs: stopped by SIGSTOP (or SIGTSTP) since"));
}

}  // namespace verdict_test
}  // namespace lockstep::flight
