// SPDX-License-Identifier: Apache-2.0
// The report's rules on made-up measurements. scripts/trials/trial provoke checks that they find real causes.
#include "lockstep/view/step_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/view/terminal.h"
#include "view/report/rules.h"

namespace lockstep::view {
namespace step_report_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr ReportSettings kSettings{.workers = 2, .batch_size = 64};

void set(RankFigures& rank, StepPart part, double seconds) { rank.parts[static_cast<std::size_t>(part)] = seconds; }

/// 100 steps in 10 s, nothing unusual.
RankFigures healthy_rank(int rank) {
  RankFigures figures{.rank = rank, .host = "gpu-a", .steps = 100, .seconds = 10};
  set(figures, StepPart::kData, 0.2);
  set(figures, StepPart::kForward, 3.5);
  set(figures, StepPart::kBackward, 5);
  set(figures, StepPart::kExposed, 0.6);
  set(figures, StepPart::kOptimizer, 0.5);
  set(figures, StepPart::kOther, 0.2);
  figures.compute_cpu = 8.9;
  figures.delayed = 0.1;
  figures.process_cpu = 10;
  figures.workers = {.count = 2, .busy = 2, .cpu = 1.9, .delayed = 0.05};
  figures.read_bytes = 20'000'000;
  figures.cores = 8;
  figures.buckets = 3;
  figures.bucket_bytes = 60 << 20;
  figures.resident = 400'000'000;
  figures.host_memory = 16'000'000'000;
  figures.host_free = 8'000'000'000;
  figures.network = "gpu-a";
  for (int i = 0; i < 10; ++i) {
    figures.stretches.push_back({.first_step = 10 * i + 1, .steps = 10, .compute = 0.9, .compute_cpu = 0.89});
  }
  return figures;
}

std::vector<RankFigures> healthy(int world = 2) {
  std::vector<RankFigures> ranks;
  for (int i = 0; i < world; ++i) ranks.push_back(healthy_rank(i));
  return ranks;
}

/// The steps wait a long time for data, and the workers are always busy.
void wait_for_data(RankFigures& rank) {
  set(rank, StepPart::kData, 6.1);
  set(rank, StepPart::kForward, 1.2);
  set(rank, StepPart::kBackward, 1.5);
  rank.compute_cpu = 2.9;
  rank.workers = {.count = 2, .busy = 19, .cpu = 18.5, .delayed = 0.1};
}

Finding only(const std::vector<RankFigures>& ranks, const ReportSettings& settings = kSettings) {
  const auto found = find_causes(ranks, settings);
  EXPECT_THAT(found, SizeIs(1));
  return found.empty() ? Finding{.rank = -99} : found.front();
}

TEST(StepReport, SaysNothingOfAHealthyRun) {
  for (const int world : {1, 2, 5}) EXPECT_THAT(find_causes(healthy(world), kSettings), IsEmpty());
  EXPECT_THAT(find_causes({}, kSettings), IsEmpty());
}

TEST(StepReport, SaysNothingOfAFewSteps) {
  std::vector<RankFigures> ranks = healthy();
  for (RankFigures& rank : ranks) {
    wait_for_data(rank);
    rank.steps = 19;
  }
  EXPECT_THAT(find_causes(ranks, kSettings), IsEmpty());
}

TEST(StepReport, NamesFewWorkersWhereTheyComputeAndCoresAreIdle) {
  std::vector<RankFigures> ranks = healthy();
  for (RankFigures& rank : ranks) wait_for_data(rank);
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kFewWorkers);
  EXPECT_EQ(finding.sentence,
            "waiting for data takes 61 % of the step: its 2 workers are always busy, and this run leaves 6.0 of 8 "
            "cores idle");
  EXPECT_EQ(finding.advice, "set workers=4 (it is 2), or pack the set once: lockstep pack");
}

TEST(StepReport, NamesTheCostOfLoadingWhereNoCoreIsIdle) {
  std::vector<RankFigures> ranks = healthy();
  for (RankFigures& rank : ranks) {
    wait_for_data(rank);
    rank.process_cpu = 37;
  }
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kCostlyLoading);
  EXPECT_THAT(finding.sentence, HasSubstr("the run uses all of the 8 cores"));
}

TEST(StepReport, BlamesNoWorkersThatOthersKeepFromTheCores) {
  std::vector<RankFigures> ranks = healthy();
  for (RankFigures& rank : ranks) {
    wait_for_data(rank);
    rank.workers = {.count = 2, .busy = 19, .cpu = 9, .delayed = 9.5};
  }
  EXPECT_THAT(find_causes(ranks, kSettings), IsEmpty());
}

TEST(StepReport, NamesTheDiskWhereWorkersAreBlocked) {
  std::vector<RankFigures> ranks = healthy();
  for (RankFigures& rank : ranks) {
    wait_for_data(rank);
    rank.workers.cpu = 1.9;
  }
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kSlowDisk);
  EXPECT_EQ(finding.sentence,
            "waiting for data takes 61 % of the step: its 2 workers are blocked 89 % of the time, mostly in reads "
            "(2.0 MB/s)");
}

TEST(StepReport, NamesTheTrainingThreadWhereItLoadsItself) {
  std::vector<RankFigures> ranks = healthy(1);
  wait_for_data(ranks[0]);
  ranks[0].workers = {.count = 0, .busy = 6, .cpu = 5.9};
  const Finding finding = only(ranks, {.workers = 0});
  EXPECT_EQ(finding.cause, Cause::kFewWorkers);
  EXPECT_THAT(finding.advice, HasSubstr("workers=2 (it is 0)"));
}

TEST(StepReport, NamesTheOneRankThatWaitsForData) {
  std::vector<RankFigures> ranks = healthy(3);
  wait_for_data(ranks[1]);
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kUnbalancedLoader);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_THAT(finding.sentence, HasSubstr("rank 1 waits for data 61 % of the step, the others 2 %"));
}

TEST(StepReport, BlamesNoRankWhereAllLoadAsSlowly) {
  std::vector<RankFigures> ranks = healthy(2);
  for (RankFigures& rank : ranks) {
    wait_for_data(rank);
    rank.workers.cpu = 1.9;
  }
  set(ranks[0], StepPart::kData, 0.5);  // it waits for rank 1 instead
  set(ranks[0], StepPart::kExposed, 5.6);
  ranks[0].workers.busy = 17;
  EXPECT_EQ(only(ranks).cause, Cause::kSlowDisk);
}

TEST(StepReport, CountsTheCoresOfPinnedRanksForEachRank) {
  std::vector<RankFigures> ranks = healthy(2);
  for (RankFigures& rank : ranks) {
    wait_for_data(rank);
    rank.process_cpu = 25;
    rank.cores = 4;
    rank.cpus = rank.rank == 0 ? "0-3" : "4-7";
  }
  EXPECT_THAT(only(ranks).sentence, HasSubstr("1.5 of 4 cores idle"));
}

TEST(StepReport, BlamesNoCoreThatARankSharesWithItsOwnWorkers) {
  std::vector<RankFigures> ranks = healthy(2);
  wait_for_data(ranks[1]);
  ranks[1].delayed = 2.4;
  set(ranks[1], StepPart::kForward, 5.4);
  set(ranks[1], StepPart::kBackward, 6);
  EXPECT_EQ(only(ranks).cause, Cause::kUnbalancedLoader);
}

/// Makes every step `factor` times longer, starting at stretch `from`. `computes`: the rank runs on its core rather
/// than waiting for it.
void slow_down(RankFigures& rank, double factor, std::size_t from, bool computes) {
  for (std::size_t i = from; i < rank.stretches.size(); ++i) {
    rank.stretches[i].compute *= factor;
    if (computes) rank.stretches[i].compute_cpu *= factor;
  }
  set(rank, StepPart::kForward, rank.time_in(StepPart::kForward) * factor);
  set(rank, StepPart::kBackward, rank.time_in(StepPart::kBackward) * factor);
  if (computes) rank.compute_cpu *= factor;
  if (!computes) rank.delayed = 0.4 * rank.seconds;
}

TEST(StepReport, NamesACoreThatIsShared) {
  std::vector<RankFigures> ranks = healthy(3);
  slow_down(ranks[2], 1.18, 0, false);
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kBusyCore);
  EXPECT_EQ(finding.rank, 2);
  EXPECT_EQ(finding.sentence,
            "rank 2 is 17 % slower in backward: its core is shared; it waited 40 % of the time for a core, the others "
            "1 %");
  EXPECT_EQ(finding.advice, "check what else runs on gpu-a (top), or give each rank its own cores");
}

TEST(StepReport, TellsSinceWhenACoreIsShared) {
  std::vector<RankFigures> ranks = healthy(3);
  slow_down(ranks[2], 1.5, 6, false);
  EXPECT_THAT(only(ranks).sentence, HasSubstr("slower in backward since step 61: its core is shared"));
  ranks[2].stretches[1].compute *= 1.5;  // a passing slowdown
  EXPECT_THAT(only(ranks).sentence, Not(HasSubstr("since")));
}

TEST(StepReport, SaysNothingOfLoadThatHitsAllRanks) {
  std::vector<RankFigures> ranks = healthy(3);
  for (RankFigures& rank : ranks) slow_down(rank, 1.6, 0, false);
  slow_down(ranks[1], 1.15, 0, false);
  ranks[1].delayed = 6;
  EXPECT_THAT(find_causes(ranks, kSettings), IsEmpty());
}

void give_more_work(std::vector<RankFigures>& ranks, std::size_t rank, double factor) {
  slow_down(ranks[rank], factor, 0, true);
  for (std::size_t i = 0; i < ranks.size(); ++i) set(ranks[i], StepPart::kExposed, i == rank ? 0.1 : 2.5);
}

TEST(StepReport, NamesARankWithMoreWork) {
  std::vector<RankFigures> ranks = healthy(3);
  give_more_work(ranks, 1, 1.4);
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kMoreWork);
  EXPECT_EQ(finding.rank, 1);
  EXPECT_THAT(finding.sentence, HasSubstr("rank 1 uses 40 % more CPU time per step than the others"));
}

TEST(StepReport, TakesNoCrowdedHostForMoreWork) {
  std::vector<RankFigures> ranks = healthy(3);
  give_more_work(ranks, 1, 1.4);
  for (RankFigures& rank : ranks) rank.delayed = 2;
  EXPECT_THAT(find_causes(ranks, kSettings), IsEmpty());
}

TEST(StepReport, TakesNoPassingLoadForMoreWork) {
  std::vector<RankFigures> ranks = healthy(3);
  give_more_work(ranks, 1, 1.4);
  for (const std::size_t i : {1U, 4U, 7U}) ranks[1].stretches[i] = ranks[0].stretches[i];
  EXPECT_THAT(find_causes(ranks, kSettings), IsEmpty());
}

TEST(StepReport, NamesTinyBucketsByTheRankThatWaitsLeast) {
  std::vector<RankFigures> ranks = healthy();
  for (RankFigures& rank : ranks) {
    rank.buckets = 60;
    set(rank, StepPart::kExposed, 3);
  }
  const ReportSettings tiny{.bucket_cap_mb = 1};
  for (RankFigures& rank : ranks) {
    rank.buckets = 7;
    rank.bucket_bytes = 7 << 20;
  }
  EXPECT_THAT(find_causes(ranks, tiny), IsEmpty());  // so few buckets cost nothing
  for (RankFigures& rank : ranks) {
    rank.buckets = 60;
    rank.bucket_bytes = 60 << 20;
  }
  const Finding finding = only(ranks, tiny);
  EXPECT_EQ(finding.cause, Cause::kTinyBuckets);
  EXPECT_EQ(finding.advice, "set bucket_cap_mb=25 (it is 1)");
  EXPECT_THAT(find_causes(ranks, kSettings), IsEmpty());  // they have the right size
  set(ranks[1], StepPart::kExposed, 0.5);                 // the others wait for this rank, not for the network
  EXPECT_THAT(find_causes(ranks, tiny), IsEmpty());
}

TEST(StepReport, NamesMemoryThatRunsOutWithWhatTheRanksOfTheHostHaveTaken) {
  std::vector<RankFigures> ranks = healthy(3);
  for (RankFigures& rank : ranks) rank.shared = 100'000'000;
  ranks[2].host = "gpu-b";
  ranks[2].host_free = 500'000'000;
  EXPECT_THAT(only(ranks).sentence,
              "memory is near its limit: 500.0 MB of 16.0 GB are left on gpu-b, where the rank "
              "has taken 400.0 MB");
  ranks[0].host_free = ranks[1].host_free = 100'000'000;
  const Finding finding = only(ranks);
  EXPECT_EQ(finding.cause, Cause::kMemory);
  EXPECT_THAT(finding.sentence, HasSubstr("2 ranks have taken 700.0 MB"));  // shared memory counts once
  EXPECT_THAT(finding.advice, HasSubstr("batch_size=32"));
}

TEST(StepReport, IsNewByCauseAndRank) {
  const Finding one{.cause = Cause::kBusyCore, .rank = 1, .sentence = "40 %"};
  const Finding later{.cause = Cause::kBusyCore, .rank = 1, .sentence = "41 %"};
  const Finding other{.cause = Cause::kBusyCore, .rank = 2};
  EXPECT_THAT(new_findings({later}, {one}), IsEmpty());
  EXPECT_THAT(new_findings({later, other}, {one}), SizeIs(1));
}

TEST(StepReport, AddsUpTimesAndKeepsTheNewestState) {
  RankFigures sum;
  add(sum, healthy_rank(3));
  RankFigures later = healthy_rank(3);
  later.resident = 300'000'000;
  later.traffic = {{"eth0", 10, 20}};
  add(sum, later);
  EXPECT_EQ(sum.rank, 3);
  EXPECT_EQ(sum.steps, 200);
  EXPECT_DOUBLE_EQ(sum.time_in(StepPart::kBackward), 10);
  EXPECT_DOUBLE_EQ(sum.workers.busy, 4);
  EXPECT_EQ(sum.resident, 400'000'000);
  EXPECT_THAT(sum.traffic, SizeIs(1));
  EXPECT_THAT(sum.stretches, SizeIs(10));  // each report covers the whole run
}

TEST(StepReport, CountsEachHostsNetworkOnce) {
  StepReport report{.ranks = healthy(3)};
  for (RankFigures& rank : report.ranks) rank.traffic = {{"eth0", 100, 50}, {"eth1", 20, 0}};
  EXPECT_FALSE(network_of(report));  // one host
  report.ranks[2].network = "gpu-b";
  report.ranks[2].resent = 4;
  const auto sum = network_of(report);
  ASSERT_TRUE(sum);
  EXPECT_DOUBLE_EQ(sum->sent, 24);  // bytes per second
  EXPECT_DOUBLE_EQ(sum->received, 10);
  EXPECT_EQ(sum->resent, 4);
}

TEST(StepReport, HasALineForEachRankIn80Columns) {
  StepReport report{.first_step = 1, .last_step = 100, .ranks = healthy()};
  slow_down(report.ranks[1], 1.18, 0, false);
  set(report.ranks[1], StepPart::kSave, 0.5);
  set(report.ranks[1], StepPart::kEvaluate, 0.5);
  report.findings = find_causes(report.ranks, kSettings);
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("   0    2 %     35 %      50 %    6 %        5 %"));
  EXPECT_THAT(text, HasSubstr("\nfinding  rank 1 is 17 % slower"));
  EXPECT_THAT(text, HasSubstr("\nadvice   check what else"));
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(display_width(text.substr(at, end - at)), 80);
    at = end + 1;
  }
}

/// A rank's shares must add up for the reader.
TEST(StepReport, LeavesOutNoPartThatExplainsASlowStep) {
  StepReport report{.ranks = healthy()};
  for (RankFigures& rank : report.ranks) {
    set(rank, StepPart::kEvaluate, 0.4);
    set(rank, StepPart::kSave, 0.4);
  }
  EXPECT_THAT(report_text(report), Not(HasSubstr("other")));
  set(report.ranks[1], StepPart::kOther, 3);
  EXPECT_THAT(report_text(report), HasSubstr("other"));
}

TEST(StepReport, ShowsOfManyRanksTheSlowestAndTheMedian) {
  StepReport report{.ranks = healthy(64)};
  set(report.ranks[50], StepPart::kExposed, 0.01);
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("\n  50 "));
  EXPECT_THAT(text, HasSubstr("\n all "));
  EXPECT_THAT(text, HasSubstr("the 4 ranks that the others wait for, and the median of all 64\n"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 8);
}

TEST(StepReport, WithAFigureThatIsNoNumberComesBackFromJson) {
  RankFigures rank = healthy_rank(1);
  rank.seconds = std::nan("");
  rank.cores = std::numeric_limits<double>::infinity();
  rank.workers.busy = std::nan("");
  set(rank, StepPart::kData, std::nan(""));
  rank.stretches.front().compute = std::nan("");
  EXPECT_THAT(to_json(rank), HasSubstr("\"seconds\":null"));
  const auto same = parse_rank_figures(to_json(rank));
  ASSERT_TRUE(same);
  EXPECT_TRUE(std::isnan(same->seconds));
  EXPECT_EQ(same->steps, 100);
  EXPECT_EQ(to_json(*same), to_json(rank));
}

TEST(StepReport, ComesBackFromJson) {
  RankFigures rank = healthy_rank(1);
  rank.traffic = {{"eth0", 7, 9}};
  rank.resent = 5;
  rank.cpus = "0-7";
  const auto same = parse_rank_figures(to_json(rank));
  ASSERT_TRUE(same);
  EXPECT_EQ(to_json(*same), to_json(rank));
  EXPECT_EQ(same->resent, 5);
  EXPECT_THAT(same->stretches, SizeIs(10));
  const StepReport report{
      .first_step = 3, .last_step = 9, .ranks = {rank}, .findings = {{Cause::kMoreWork, 1, "a \"b\"", "c"}}};
  const auto read = parse_step_report(to_json(report));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read), to_json(report));
  EXPECT_EQ(read->findings.front().cause, Cause::kMoreWork);
}

TEST(StepReport, IsNoneWhereTheTextIsSomethingElse) {
  for (const char* text : {"", "[]", "{}", "{\"first_step\": 1}", "{\"first_step\": \"a\", \"last_step\": 2}",
                           "{\"first_step\":1,\"last_step\":2,\"findings\":[],\"ranks\":[{\"rank\":0}]}"}) {
    EXPECT_FALSE(parse_step_report(text)) << text;
    EXPECT_FALSE(parse_rank_figures(text)) << text;
  }
}

}  // namespace step_report_test
}  // namespace lockstep::view
