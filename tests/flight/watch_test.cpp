// SPDX-License-Identifier: Apache-2.0
#include "lockstep/flight/watch.h"
#include "lockstep/base/error.h"
#include "lockstep/flight/section_timeouts.h"
#include "support/comma_locale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::flight {
namespace watch_test {

using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

// Since second 100 in `section`, which has taken up to 7 s before.
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

// Since second 100 in an all-reduce.
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
  EXPECT_EQ(verdict->section, "forward");
  EXPECT_EQ(verdict->text,
            "rank 1 hangs: it computes in forward of step 13 since 71.0 s (limit 1:10; the longest so far took 7.0 s)");
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
  EXPECT_TRUE(has_long_work(at_second(169, {rank_in("save"), waiting(0)})));
  EXPECT_FALSE(has_long_work(at_second(171, {rank_in("save"), waiting(0)})));
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
  EXPECT_EQ(stall->text, "ranks 0, 2 wait in all_reduce since 30.0 s for rank 1: it computes in forward of step 13");
}

TEST(Stall, KnowsARankThatIsStoppedInsideTheCollective) {
  RankFacts stopped = waiting(1);
  stopped.process.state = 'T';
  EXPECT_EQ(
      longest_stall(at_second(108, {waiting(0), stopped}))->text,
      "rank 0 waits in all_reduce since 8.0 s for rank 1: stopped by SIGSTOP (or SIGTSTP) in backward of step 13");
}

TEST(Stall, KnowsThatTheLateRankIsAnotherNodes) {
  RankFacts first = waiting(0);
  first.ring->world_size = 4;
  EXPECT_THAT(longest_stall(at_second(130, {first, waiting(1)}))->text,
              HasSubstr("ranks 0, 1 wait in all_reduce since 30.0 s for a rank of another node"));
}

TEST(Stall, OfARankForWhichNobodyWaitsBeginsAtThreeTimesItsLongest) {
  EXPECT_FALSE(longest_stall(at_second(120, {rank_in("forward")})));
  EXPECT_EQ(longest_stall(at_second(122, {rank_in("forward")}))->text,
            "rank 1: it computes in forward of step 13 since 22.0 s (limit 1:10; the longest so far took 7.0 s)");
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
}  // namespace lockstep::flight
