// SPDX-License-Identifier: Apache-2.0
#include "lockstep/view/run_diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::view {
namespace run_diagnosis_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 100 * kSecond;

AttemptFacts failed(int number, const std::string& text, int code) {
  return {.number = number,
          .ranks = 2,
          .verdict = FailureRecord{.message = text, .rank = 1, .time_ns = 50 * kSecond},
          .exit_code = code};
}

FailureRecord error(int rank, const std::string& type, const std::string& message) {
  return {.type = type, .message = message, .rank = rank};
}

/// A run folder of `lockstep train` with two ranks.
RunFacts run_folder() {
  return {.path = "runs/a",
          .has_settings = true,
          .is_recipe = true,
          .log = RunLog{.step = 120, .loss = 0.25, .time_ns = 90 * kSecond},
          .checkpoint = "runs/a/checkpoints/step-00000100",
          .now_ns = kNow,
          .monotonic_ns = kNow};
}

flight::RankFacts rank_in_step(int rank, std::int64_t last_event_ns) {
  flight::Snapshot ring{.pid = 4000 + rank,
                        .rank = rank,
                        .world_size = 2,
                        .host = "gpu-a",
                        .step = 121,
                        .sections = {{"backward", kNow - 4 * kSecond}},
                        .timeout_ns = 300 * kSecond,
                        .last_event_ns = last_event_ns};
  return {.rank = rank, .host = "gpu-a", .ring = ring, .process = {.state = 'S'}};
}

/// Rank 0 has waited `ns` for rank 1.
RunFacts waiting(std::int64_t ns) {
  RunFacts facts = run_folder();
  facts.attempts = {{.number = 0, .ranks = 2, .has_rings = true}};
  facts.is_launched = true;
  facts.ranks = {rank_in_step(0, kNow - ns), rank_in_step(1, kNow - ns)};
  facts.ranks[0].ring->lanes = {
      {.group = 0, .name = "all_reduce", .started = 7, .finished = 6, .started_ns = kNow - ns}};
  facts.ranks[1].ring->lanes = {{.group = 0, .name = "all_reduce", .started = 6, .finished = 6, .started_ns = 1}};
  return facts;
}

TEST(RunDiagnosis, AFailedRunSaysItsVerdictAndHowToResume) {
  RunFacts facts = run_folder();
  facts.attempts = {failed(0, "rank 1 on gpu-a failed first: killed by signal 9 (SIGKILL)", 137)};
  facts.attempts[0].has_rings = true;
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.state, RunState::kFailed);
  EXPECT_EQ(diagnosis.text, "rank 1 on gpu-a failed first: killed by signal 9 (SIGKILL) (exit code 137)");
  EXPECT_THAT(diagnosis.details, ElementsAre("log         step 120, loss 0.25, logged 10 s ago",
                                             "checkpoint  runs/a/checkpoints/step-00000100"));
  EXPECT_THAT(diagnosis.next,
              ElementsAre("lockstep train runs/a/config.yml --nproc-per-node 2 --run-dir runs/a --resume auto",
                          "lockstep inspect flight runs/a --last 40"));
}

TEST(RunDiagnosis, EveryCommandQuotesAFolderWithASpace) {
  RunFacts facts = run_folder();
  facts.path = "runs/a b";
  facts.attempts = {failed(0, "rank 1 failed", 1)};
  facts.attempts[0].has_rings = true;
  EXPECT_THAT(diagnose(facts).next,
              ElementsAre("lockstep train 'runs/a b/config.yml' --nproc-per-node 2 --run-dir 'runs/a b' --resume auto",
                          "lockstep inspect flight 'runs/a b' --last 40"));
  facts.is_recipe = false;
  EXPECT_THAT(diagnose(facts).next, Contains("start the program again with --run-dir 'runs/a b' --resume auto"));
  for (const std::int64_t ns : {kSecond, 9 * kSecond}) {
    RunFacts running = waiting(ns);
    running.path = "runs/a b";
    EXPECT_THAT(diagnose(running).next, ElementsAre(HasSubstr(" 'runs/a b' "))) << ns;
  }
}

TEST(RunDiagnosis, EarlierAttemptsHaveALineEach) {
  RunFacts facts = run_folder();
  facts.attempts = {failed(0, "rank 1 on gpu-a failed first: exit code 3", 0),
                    failed(1, "rank 0 hangs: stopped by SIGSTOP", 76),
                    failed(2, "rank 1 on gpu-a failed first: exit code 3", 3)};
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_THAT(diagnosis.earlier, ElementsAre("attempt 0: rank 1 on gpu-a failed first: exit code 3 (started again)",
                                             "attempt 1: rank 0 hangs: stopped by SIGSTOP (exit code 76)"));
  EXPECT_EQ(diagnosis.text, "rank 1 on gpu-a failed first: exit code 3") << "the code is not said twice";
}

TEST(RunDiagnosis, ManyAttemptsAreCounted) {
  RunFacts facts = run_folder();
  for (int i = 0; i < 20; ++i) facts.attempts.push_back(failed(i, "rank 1 failed", 0));
  const RunDiagnosis diagnosis = diagnose(facts);
  ASSERT_EQ(diagnosis.earlier.size(), 6U);
  EXPECT_EQ(diagnosis.earlier.front(), "14 attempts before");
}

TEST(RunDiagnosis, TheHintOfTheVerdictComesFirstAndStacksAreShown) {
  RunFacts facts = run_folder();
  facts.attempts = {failed(0, "rank 1 hangs", 76)};
  facts.attempts[0].verdict->hint = "raise LOCKSTEP_TIMEOUT";
  facts.attempts[0].stacks = {"#0 read", "#1 main"};
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.next.front(), "raise LOCKSTEP_TIMEOUT");
  EXPECT_THAT(diagnosis_text(diagnosis, false), HasSubstr("  stacks\n    #0 read\n    #1 main\n"));
}

/// Every rank ends with the guard's error, which names the rank at fault; the verdict may name another rank as the
/// first.
TEST(RunDiagnosis, AWrongNumberIsThatOfTheRankThatErred) {
  const std::string words = "step 7: rank 1 on host gpu-b (node 0) computed a different loss";
  RunFacts facts = run_folder();
  facts.attempts = {failed(0, "rank 0 on gpu-a failed first: CorruptionError: " + words, 77)};
  for (const int rank : {0, 1}) {
    facts.attempts[0].errors.push_back({.type = "CorruptionError", .message = words, .rank = rank});
  }
  facts.suspects = {"step-00000006.suspect", "step-00000008.suspect"};
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.text, "the guard found a wrong number: " + words + " (exit code 77)");
  EXPECT_THAT(diagnosis.details,
              Contains("set aside   step-00000006.suspect and 1 more: the guard has not verified them"));
  EXPECT_THAT(diagnosis.details, Each(Not(HasSubstr("CorruptionError"))));
  facts.attempts[0].errors.clear();  // the ranks of another host
  EXPECT_EQ(diagnose(facts).text, diagnosis.text);
}

TEST(RunDiagnosis, ARankWithoutAnErrorShowsItsLastLines) {
  RunFacts facts{.path = "logs", .attempts = {failed(0, "rank 1 on gpu-a failed first: exit code 1", 1)}};
  facts.attempts[0].blamed_log = "logs/attempt_0/rank-1/stderr.log";
  facts.attempts[0].blamed_lines = {"boom"};
  EXPECT_THAT(diagnose(facts).details, ElementsAre("last lines of logs/attempt_0/rank-1/stderr.log", "| boom"));
  EXPECT_THAT(diagnose(facts).next, IsEmpty()) << "there are neither settings nor rings";
  facts.attempts[0].errors = {error(0, "PeerError", "rank 1 failed"), error(1, "DataError", "no such file"),
                              error(2, "IoError", "full")};
  EXPECT_THAT(diagnose(facts).details, ElementsAre("rank 1      DataError: no such file", "rank 2      IoError: full"))
      << "who only repeats the failure is left out";
}

TEST(RunDiagnosis, ErrorsCountWhereTheLauncherWroteNoVerdict) {
  RunFacts facts{.path = "logs", .attempts = {{.ranks = 2, .errors = {error(1, "DataError", "no such file")}}}};
  EXPECT_EQ(diagnose(facts).state, RunState::kFailed);
  EXPECT_EQ(diagnose(facts).text, "rank 1 failed: DataError: no such file");
}

TEST(RunDiagnosis, ARankThatOnlySawAnotherDieDoesNotTellWhy) {
  RunFacts facts{.path = "logs", .attempts = {{.ranks = 2, .errors = {error(0, "PeerError", "rank 1 on vm died")}}}};
  EXPECT_NE(diagnose(facts).state, RunState::kFailed) << "its launcher was killed, and the ranks with it";
  facts.attempts[0].errors.push_back(error(1, "DataError", "no such file"));
  EXPECT_EQ(diagnose(facts).text, "rank 1 failed: DataError: no such file");
}

TEST(RunDiagnosis, ACompleteRunHasItsFigures) {
  RunFacts facts = run_folder();
  facts.attempts = {{.ranks = 2}};
  facts.summary = RunSummary{.steps = 120, .seconds = 42, .metrics = {{"accuracy", 0.9731}}, .time_ns = 90 * kSecond};
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.state, RunState::kFinished);
  EXPECT_EQ(diagnosis.text, "120 steps in 42 s; accuracy 0.9731");
  EXPECT_THAT(diagnosis.next, ElementsAre("lockstep checkpoint inspect runs/a"));
}

TEST(RunDiagnosis, ASummaryOfAnEarlierPartIsNoEnd) {
  RunFacts facts = run_folder();
  facts.summary = RunSummary{.steps = 100, .time_ns = 40 * kSecond};
  EXPECT_EQ(diagnose(facts).state, RunState::kLost) << "step 120 came after it";
  facts.summary->steps = 120;
  facts.attempts = {failed(0, "rank 1 failed", 70)};
  EXPECT_EQ(diagnose(facts).state, RunState::kFailed) << "the verdict is younger";
  facts.summary->time_ns = 60 * kSecond;
  EXPECT_EQ(diagnose(facts).state, RunState::kFinished);
}

TEST(RunDiagnosis, AStoppedRunHasSaved) {
  RunFacts facts = run_folder();
  facts.log->stopped_by = "SIGTERM";
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.state, RunState::kStopped);
  EXPECT_EQ(diagnosis.text, "by SIGTERM: the run saved after step 120 and exited");
  EXPECT_THAT(diagnosis.next, ElementsAre("lockstep train runs/a/config.yml --run-dir runs/a --resume auto"));
}

TEST(RunDiagnosis, RanksThatLeftAsTheyWereToldHaveNotFailed) {
  RunFacts facts = run_folder();
  facts.attempts = {failed(0, "the ranks stopped on request, rank 1 on vm first", 143)};
  facts.attempts[0].verdict->kind = FailureKind::kNone;
  facts.log->stopped_by = "--max-time";
  EXPECT_EQ(diagnose(facts).state, RunState::kStopped);
  EXPECT_EQ(diagnose(facts).text, "by --max-time: the run saved after step 120 and exited");
  facts.log->stopped_by.clear();  // a user's own program, or ranks that were killed before they saved
  EXPECT_EQ(diagnose(facts).state, RunState::kStopped);
  EXPECT_EQ(diagnose(facts).text, "the ranks stopped on request, rank 1 on vm first (exit code 143)");
  EXPECT_THAT(diagnose(facts).next, Contains(HasSubstr("--resume auto")));
  facts.attempts.push_back(failed(1, "rank 0 on vm failed first: killed by signal 9 (SIGKILL)", 137));
  EXPECT_EQ(diagnose(facts).state, RunState::kFailed) << "the newest attempt counts";
  EXPECT_THAT(diagnose(facts).earlier,
              ElementsAre("attempt 0: the ranks stopped on request, rank 1 on vm first (exit code 143)"));
}

TEST(RunDiagnosis, ARunWhoseEndNobodyWroteIsLost) {
  RunFacts facts = run_folder();
  EXPECT_EQ(diagnose(facts).state, RunState::kLost);
  facts.attempts = {{.ranks = 2}};
  facts.launcher_is_gone = true;
  EXPECT_THAT(diagnose(facts).text, HasSubstr("its launcher left no record of its end"));
  facts.is_recipe = false;
  EXPECT_THAT(diagnose(facts).next, ElementsAre("start the program again with --run-dir runs/a --resume auto"));
  facts.checkpoint.clear();
  EXPECT_THAT(diagnose(facts).details, Contains("checkpoint  none: the run starts over at step 0"));
}

TEST(RunDiagnosis, LogsAloneSayThatNobodyFailed) {
  const RunFacts facts{.path = "logs", .attempts = {{.ranks = 2}}};
  EXPECT_EQ(diagnose(facts).state, RunState::kEnded);
  EXPECT_THAT(diagnose(facts).text, HasSubstr("2 ranks of this host ended, and none failed"));
}

TEST(RunDiagnosis, ARunThatHasNotBegunIsEmpty) {
  const RunFacts facts{.path = "runs/a", .has_settings = true, .is_recipe = true};
  EXPECT_EQ(diagnose(facts).state, RunState::kEmpty);
}

TEST(RunDiagnosis, AShortWaitIsPartOfAHealthyRun) {
  const RunDiagnosis diagnosis = diagnose(waiting(2 * kSecond));
  EXPECT_EQ(diagnosis.state, RunState::kRuns);
  EXPECT_EQ(diagnosis.text, "2 ranks on this host, step 121, the last event 2.0 s ago");
  EXPECT_THAT(diagnosis.next, ElementsAre(HasSubstr("lockstep doctor runs/a")));
}

TEST(RunDiagnosis, ALongWaitNamesTheRankAndWhenItEnds) {
  const RunDiagnosis diagnosis = diagnose(waiting(20 * kSecond));
  EXPECT_EQ(diagnosis.state, RunState::kWaits);
  EXPECT_EQ(diagnosis.text,
            "rank 0 waits in all_reduce for rank 1 (20.0 s so far): it sleeps in backward of step 121; "
            "LOCKSTEP_TIMEOUT ends the wait in 4:40");
  EXPECT_THAT(diagnosis.details, Contains(HasSubstr("rank 0 (pid 4000 on gpu-a), step 121, in backward for 4.0 s, "
                                                    "waiting in all_reduce 7 for 20.0 s")));
  EXPECT_THAT(diagnosis.next, ElementsAre("lockstep inspect flight runs/a --last 40"));
}

TEST(RunDiagnosis, AStoppedRankNeedsNoPatience) {
  RunFacts facts = waiting(kSecond);
  facts.ranks[1].process.state = 'T';
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.state, RunState::kWaits);
  EXPECT_THAT(diagnosis.text, HasSubstr(" so far): stopped by SIGSTOP"));
  EXPECT_THAT(diagnosis.next, Contains("kill -CONT 4001"));
}

TEST(RunDiagnosis, ARankThatIsStoppedInsideACollectiveStandsStill) {
  RunFacts facts = waiting(8 * kSecond);
  facts.ranks[1].ring->lanes = facts.ranks[0].ring->lanes;
  facts.ranks[1].process.state = 'T';
  facts.ranks[0].ring->last_event_ns = kNow;  // it has just given up
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.state, RunState::kWaits);
  EXPECT_THAT(diagnosis.text, StartsWith("no progress for 8.0 s: rank 1 is stopped (T); rank 0 waits in all_reduce"));
  EXPECT_THAT(diagnosis.text, HasSubstr(" so far): stopped by SIGSTOP"));
  EXPECT_THAT(diagnosis.next, Contains("kill -CONT 4001"));
}

TEST(RunDiagnosis, RanksThatAreAllStoppedDoNotRun) {
  RunFacts facts = waiting(kSecond);
  for (flight::RankFacts& rank : facts.ranks) {
    rank.process.state = 'T';
    rank.ring->lanes.clear();
  }
  const RunDiagnosis diagnosis = diagnose(facts);
  EXPECT_EQ(diagnosis.state, RunState::kWaits);
  EXPECT_THAT(diagnosis.text, StartsWith("no progress for 1.0 s: ranks 0, 1 are stopped (T)"));
  EXPECT_THAT(diagnosis.next, Contains("kill -CONT 4000"));
}

TEST(RunDiagnosis, RanksThatRecordNothingAreSaidToRun) {
  RunFacts facts{.path = "logs", .attempts = {{.ranks = 1}}, .is_launched = true, .ranks = {{.rank = 0}}};
  EXPECT_EQ(diagnose(facts).state, RunState::kRuns);
  EXPECT_THAT(diagnose(facts).details, ElementsAre(HasSubstr("the ranks have recorded nothing")));
}

TEST(RunDiagnosis, OneProcessIsFoundByItsLock) {
  RunFacts facts = run_folder();
  facts.trainer = "pid 4711 on gpu-a";
  EXPECT_EQ(diagnose(facts).state, RunState::kRuns);
  EXPECT_EQ(diagnose(facts).text, "one process (pid 4711 on gpu-a): step 120, loss 0.25, logged 10 s ago");
}

TEST(RunDiagnosis, ThePageIsCleanAndHasAColourOnlyWhereItMay) {
  RunFacts facts = run_folder();
  facts.attempts = {failed(0, "a\x1b[31m", 1)};
  facts.notes = {"summary.json is torn"};
  const std::string page = diagnosis_text(diagnose(facts), false);
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, HasSubstr("  note        summary.json is torn\n"));
  EXPECT_THAT(diagnosis_text(diagnose(facts), true), HasSubstr("\x1b[31mfailed\x1b[0m: a\\x1b[31m (exit code 1)\n"));
}

TEST(RunDiagnosis, JsonHasNullsForWhatIsUnknown) {
  const RunFacts facts{.path = "logs", .attempts = {{.number = 3, .ranks = 1}}};
  const std::string json = diagnosis_json(facts, diagnose(facts));
  EXPECT_THAT(json, HasSubstr(R"("run": "logs", "state": "ended")"));
  EXPECT_THAT(json, HasSubstr(R"("attempt": 3)"));
  EXPECT_THAT(json, HasSubstr(R"("step": null, "checkpoint": null, "report": null})"));
}

/// A report on one rank, covering `step` steps.
StepReport report_up_to(std::int64_t step) {
  return {.first_step = 1,
          .last_step = step,
          .ranks = {{.rank = 0, .steps = step, .seconds = 2}},
          .findings = {{Cause::kMemory, -1, "memory is near its limit\x1b[31m", "a larger limit"}}};
}

TEST(RunDiagnosis, ShowsWhereTheTimeWentAsTheNewestReportHasIt) {
  RunFacts facts = run_folder();
  facts.log->step_report = report_up_to(100);
  facts.trainer = "pid 4711 on gpu-a";
  const std::string page = diagnosis_text(diagnose(facts), false);
  EXPECT_THAT(page, HasSubstr("\n  where the time of steps 1 to 100 went\n  rank "));
  EXPECT_THAT(page, HasSubstr("\n  finding  memory is near its limit\\x1b[31m\n  advice   a larger limit\n"));
  EXPECT_THAT(diagnosis_json(facts, diagnose(facts)), HasSubstr(R"("report": {"findings":[{"advice")"));
  facts.trainer.clear();
  facts.summary = RunSummary{.steps = 120, .seconds = 9, .step_report = report_up_to(120)};
  EXPECT_EQ(diagnose(facts).report->last_step, 120) << "the summary's is of the whole run";
}

}  // namespace run_diagnosis_test
}  // namespace lockstep::view
