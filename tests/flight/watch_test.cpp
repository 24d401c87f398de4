// SPDX-License-Identifier: Apache-2.0
// The late rank: section limits, and the verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/flight/section_timeouts.h"
#include "lockstep/flight/verdict.h"
#include "lockstep/flight/watch.h"
#include "support/comma_locale.h"

namespace lockstep::flight {
namespace watch_test {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

// In `section` since second 100; earlier it took up to 7 s.
RankFacts rank_in(const std::string& section, int number = 1) {
  return {.rank = number,
          .host = "host",
          .ring = Snapshot{.rank = number,
                           .world_size = 2,
                           .step = 13,
                           .sections = {{.name = section, .since_ns = 100 * kSecond}},
                           .names = {{.name = section, .longest_ns = 7 * kSecond}},
                           .timeout_ns = 300 * kSecond,
                           .last_event_ns = 100 * kSecond},
          .process = {.state = 'R'}};
}

RankFacts first_time_in(const std::string& section) {
  RankFacts rank = rank_in(section);
  rank.ring->names.clear();
  return rank;
}

// In an all-reduce since second 100.
RankFacts waiting(int number) {
  RankFacts rank = rank_in("backward", number);
  rank.ring->lanes = {{.name = "all_reduce", .started = 9, .finished = 8, .started_ns = 100 * kSecond}};
  return rank;
}

WatchFacts at_second(std::int64_t now, std::vector<RankFacts> ranks) {
  return {.ranks = std::move(ranks), .now_ns = now * kSecond};
}

std::int64_t limit_of_first(const std::vector<RankFacts>& ranks) {
  return limit_of(ranks.front().ring->sections.back(), at_second(101, ranks)).ns / kSecond;
}

TEST(SectionLimit, IsTenTimesTheLongestOfAnyRankAndAtLeastAMinute) {
  EXPECT_EQ(limit_of_first({rank_in("forward")}), 70);
  RankFacts slower = rank_in("forward", 2);
  slower.ring->names = {{.name = "forward", .longest_ns = 20 * kSecond}};
  EXPECT_EQ(limit_of_first({rank_in("forward"), slower}), 200);
  RankFacts quick = rank_in("forward");
  quick.ring->names = {{.name = "forward", .longest_ns = 1}};
  EXPECT_EQ(limit_of_first({quick}), 60);
}

TEST(SectionLimit, OfTheFirstTimeIsTheTimeoutOfCollectivesAndOfLongWorkHalfAnHour) {
  EXPECT_EQ(limit_of_first({first_time_in("forward")}), 300);
  EXPECT_EQ(limit_of_first({first_time_in("evaluate")}), 1800);
  RankFacts hurried = first_time_in("forward");
  hurried.ring->timeout_ns = 5 * kSecond;
  EXPECT_EQ(limit_of_first({hurried}), 60);
}

TEST(SectionLimit, OfASaveIsHalfAnHourEvenIfEarlierOnesWereQuick) {
  RankFacts evaluation = rank_in("evaluate");
  evaluation.ring->names = {{.name = "evaluate", .longest_ns = 1}};
  EXPECT_EQ(limit_of_first({evaluation}), 60) << "its batches are signs of life";
  for (const char* section : {"setup", "save"}) {
    RankFacts rank = rank_in(section);
    rank.ring->names = {{.name = section, .longest_ns = 1}};
    EXPECT_EQ(limit_of_first({rank}), 1800) << "a save in the background may have to wait for the one before it";
    rank.ring->names = {{.name = section, .longest_ns = 200 * kSecond}};
    EXPECT_EQ(limit_of_first({rank}), 2000);
  }
}

TEST(SectionVerdict, ASecondSaveThatWaitsForTheFirstOneIsNoHang) {
  RankFacts rank = rank_in("save", 0);
  rank.ring->names = {{.name = "save", .longest_ns = kSecond / 1000}};
  EXPECT_FALSE(judge_sections(at_second(100 + 1800, {rank, waiting(1)})));
  EXPECT_TRUE(judge_sections(at_second(100 + 1801, {rank, waiting(1)})));
}

TEST(SectionLimit, ThatTheUserSetCountsAndThatOfTheScopeObjectMore) {
  RankFacts rank = rank_in("forward");
  rank.ring->names.push_back({.name = "forward", .limit_ns = 5 * kSecond});
  EXPECT_EQ(limit_of_first({rank}), 5);
  rank.ring->names.back().limit_ns = -1;
  EXPECT_EQ(limit_of_first({rank}), 0) << "no limit";
  rank.ring->sections.back().limit_ns = 9 * kSecond;
  EXPECT_EQ(limit_of_first({rank}), 9);
}

TEST(SectionVerdict, NamesARankThatIsLongerInASectionThanItMay) {
  EXPECT_FALSE(judge_sections(at_second(170, {rank_in("forward")})));
  const auto verdict = judge_sections(at_second(171, {rank_in("forward")}));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1);
  EXPECT_EQ(
      verdict->hint,
      "check what that rank is doing; if it needs this long, set LOCKSTEP_SECTION_TIMEOUT='forward=SECONDS' (0: no "
      "limit)");
  EXPECT_EQ(
      verdict->message,
      "rank 1 hangs: it computes in forward of step 13 (71.0 s so far; limit 1:10; the longest so far took 7.0 s)");
}

TEST(SectionVerdict, EveryEventInsideIsASignOfLife) {
  RankFacts rank = rank_in("evaluate");
  rank.ring->last_event_ns = 150 * kSecond;
  EXPECT_FALSE(judge_sections(at_second(171, {rank})));
  EXPECT_TRUE(judge_sections(at_second(221, {rank})));
}

TEST(SectionVerdict, TimeInWhichNobodyWatchedDoesNotCount) {
  WatchFacts facts = at_second(171, {rank_in("forward")});
  facts.watched_since_ns = 130 * kSecond;
  EXPECT_FALSE(judge_sections(facts)) << "the launcher itself was stopped till then, as by Ctrl-Z";
  facts.now_ns = 201 * kSecond;
  EXPECT_TRUE(judge_sections(facts));
}

TEST(SectionVerdict, ARankThatWaitsOrHasEndedIsNotLate) {
  RankFacts ended = rank_in("forward", 2);
  ended.process = {.has_ended = true};
  EXPECT_FALSE(judge_sections(at_second(1000, {waiting(1), ended})));
}

TEST(SectionVerdict, OfSeveralLateRanksTheStoppedOneIsNamed) {
  RankFacts stopped = rank_in("forward", 2);
  stopped.process.state = 'T';
  EXPECT_EQ(judge_sections(at_second(1000, {rank_in("forward"), stopped}))->rank, 2);
}

TEST(LongWork, IsWhatOneRankDoesWhileOthersWaitUntilItsLimit) {
  EXPECT_TRUE(has_long_work(at_second(100 + 1800, {rank_in("save"), waiting(0)})));
  EXPECT_FALSE(has_long_work(at_second(100 + 1801, {rank_in("save"), waiting(0)})));
  EXPECT_FALSE(has_long_work(at_second(101, {rank_in("forward"), waiting(0)}))) << "a step is no long work";
  RankFacts own = rank_in("index");
  own.ring->sections.back().limit_ns = 500 * kSecond;
  EXPECT_TRUE(has_long_work(at_second(400, {own, waiting(0)})));
}

TEST(LongWork, IsNoneOfAStoppedRankAndOneAlsoAroundOtherSections) {
  RankFacts stopped = rank_in("save");
  stopped.process.state = 'T';
  EXPECT_FALSE(has_long_work(at_second(101, {stopped})));
  RankFacts inside = rank_in("save");
  inside.ring->sections.push_back({.name = "write", .since_ns = 105 * kSecond});
  EXPECT_TRUE(has_long_work(at_second(169, {inside})));
}

TEST(Stall, SaysWhoWaitsForWhomAndWhatThatOneDoes) {
  const auto stall = longest_stall(at_second(130, {waiting(0), rank_in("forward"), waiting(2)}));
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->since_ns, 100 * kSecond);
  EXPECT_EQ(stall->text, "ranks 0, 2 wait in all_reduce for rank 1 (30.0 s so far): it computes in forward of step 13");
}

TEST(Stall, KnowsARankThatIsStoppedInsideTheCollective) {
  RankFacts stopped = waiting(1);
  stopped.process.state = 'T';
  EXPECT_EQ(
      longest_stall(at_second(108, {waiting(0), stopped}))->text,
      "rank 0 waits in all_reduce for rank 1 (8.0 s so far): stopped by SIGSTOP (or SIGTSTP) in backward of step 13");
}

TEST(Stall, KnowsThatTheLateRankIsAnotherNodes) {
  RankFacts first = waiting(0);
  first.ring->world_size = 4;
  EXPECT_THAT(longest_stall(at_second(130, {first, waiting(1)}))->text,
              HasSubstr("ranks 0, 1 wait in all_reduce for a rank on another node (30.0 s so far)"));
}

TEST(Stall, OfARankForWhichNobodyWaitsBeginsAtThreeTimesItsLongest) {
  EXPECT_FALSE(longest_stall(at_second(120, {rank_in("forward")})));
  EXPECT_EQ(longest_stall(at_second(122, {rank_in("forward")}))->text,
            "rank 1: it computes in forward of step 13 (22.0 s so far; limit 1:10; the longest so far took 7.0 s)");
}

TEST(SectionTimeouts, AreSecondsWithAPointInEveryLocale) {
  const test::CommaLocale comma;
  const auto limits = parse_section_timeouts("save=1.5,data=0");
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_EQ(limits[0].limit, std::chrono::milliseconds(1500));
  for (const char* wrong : {"save=1,5", "save=", "=5", "save", "save=-1", "save=nan", "save=5s"}) {
    EXPECT_THROW((void)parse_section_timeouts(wrong), UsageError) << wrong;
  }
}

}  // namespace watch_test

namespace verdict_test {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

RankFacts rank(int number, char state = 'S') {
  return {.rank = number,
          .host = "host",
          .ring = Snapshot{.rank = number, .world_size = 3, .step = 418},
          .process = {.state = state}};
}

// It began that collective at 10 s.
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

std::optional<FailureRecord> verdict_of(const std::vector<RankFacts>& facts) { return judge(facts, 15 * kSecond); }

TEST(Verdict, NamesAStoppedRankItsPlaceAndWhoWaits) {
  const auto verdict = verdict_of({waiting(0), waiting(1), late(2, 'T', "backward")});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 2);
  EXPECT_EQ(verdict->type, "TimeoutError");
  EXPECT_THAT(verdict->hint, HasSubstr("raise LOCKSTEP_TIMEOUT (seconds)"));
  EXPECT_EQ(verdict->message,
            "rank 2 hangs: stopped by SIGSTOP (or SIGTSTP) in backward of step 418 (5.0 s so far); ranks 0, 1 wait in "
            "all_reduce (bucket 3 of 7)");
}

TEST(Verdict, TellsWhatALateRankDoes) {
  const auto text = [](const RankFacts& facts) { return verdict_of({waiting(0), facts})->message; };
  EXPECT_THAT(text(late(1, 'D', "save")), HasSubstr("in uninterruptible sleep in save"));
  EXPECT_THAT(text(late(1, 'R', "forward")), HasSubstr("it computes in forward"));
  EXPECT_THAT(text(late(1, 'S', "forward")), HasSubstr("it sleeps in forward"));
  EXPECT_THAT(text(late(1, 'S', "DataLoader::next")), HasSubstr("it is waiting for data"));
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
  EXPECT_EQ(verdict->type, "PeerError");
  EXPECT_EQ(verdict->hint, kLeftHint);
  EXPECT_THAT(verdict->message, HasSubstr("rank 1 left: its program has ended"));
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
  EXPECT_EQ(verdict->message,
            "rank 2 hangs: stopped by SIGSTOP (or SIGTSTP) in step 418 (5.0 s so far); ranks 0, 1 wait in all_reduce "
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
  EXPECT_EQ(verdict->message, "rank 1 hangs: stopped by SIGSTOP (or SIGTSTP); other ranks gave up waiting");
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

TEST(Verdict, ARankThatItselfWaitsInAnEarlierCollectiveIsNotLateIfAnotherHostMayHoldItUp) {
  const RankFacts root = waiting(0);  // of a broadcast: rank 1 has its part, and rank 2 of another host was stopped
  EXPECT_FALSE(verdict_of({root, waiting(1, 10)}));
  EXPECT_EQ(verdict_of({in_state('T', root), waiting(1, 10)})->rank, 0);
  EXPECT_EQ(verdict_of({root, waiting(1, 10), waiting(2, 10)})->rank, 0) << "all other ranks have passed it";
}

TEST(Verdict, ThereIsNoneWhereNobodyWaits) {
  EXPECT_FALSE(verdict_of({}));
  EXPECT_FALSE(verdict_of({rank(0), rank(1)}));
  EXPECT_FALSE(verdict_of({waiting(0), waiting(1)})) << "all of them are in it: the rank that is missing is elsewhere";
}

TEST(Verdict, WhereOthersWaitOnAnotherHostItIsTheRankThatIsInNoCollective) {
  const FailureRecord waiter{.message = "all_reduce timed out after 5.0 s", .rank = 3, .host = "gpu-b"};
  RankFacts late_one = late(1, 'R', "forward");
  late_one.ring->last_event_ns = 9 * kSecond;
  const auto verdict = judge({waiting(0), late_one}, 15 * kSecond, &waiter);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->message,
            "rank 1 hangs: it computes in forward of step 418 (6.0 s so far); rank 3 on gpu-b waits in all_reduce");
  EXPECT_FALSE(judge({waiting(0), waiting(1)}, 15 * kSecond, &waiter)) << "both wait, too";
  RankFacts stopped = waiting(1);
  stopped.process.state = 'T';
  EXPECT_EQ(judge({waiting(0), stopped}, 15 * kSecond, &waiter)->rank, 1) << "it cannot go on";
}

TEST(Verdict, ARankWithoutARingIsJudgedByItsProcess) {
  RankFacts unknown{.rank = 1, .host = "host", .process = {.state = 'T'}};
  EXPECT_THAT(verdict_of({waiting(0), unknown})->message,
              HasSubstr("rank 1 hangs: stopped by SIGSTOP (or SIGTSTP) (5.0 s so far)"));
}

}  // namespace verdict_test
}  // namespace lockstep::flight
