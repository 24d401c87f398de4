// SPDX-License-Identifier: Apache-2.0
#include "launch/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "launch/node_report.h"
#include "launch/output/log_folder.h"
#include "launch/worker_group.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace failure_test {

int exited(int code) { return code << 8; }

int blamed(const std::vector<WorkerEnd>& ends, std::optional<FailureRecord> claim = std::nullopt) {
  const auto found = find_first(ends, claim);
  return found ? ends[*found].rank : -1;
}

TEST(FirstFailure, NobodyFailed) { EXPECT_EQ(blamed({{.rank = 0, .wait_status = exited(0)}}), -1); }

TEST(FirstFailure, IsTheFirstThatEndedByItself) {
  EXPECT_EQ(blamed({{.rank = 2, .wait_status = exited(0)},
                    {.rank = 1, .wait_status = exited(3)},
                    {.rank = 0, .wait_status = SIGTERM, .signal_sent = SIGTERM}}),
            1);
}

TEST(FirstFailure, ARankThatLostAPeerIsNotToBlame) {
  EXPECT_EQ(blamed({{.rank = 0, .wait_status = exited(75)}, {.rank = 1, .wait_status = SIGKILL}}), 1);
  EXPECT_EQ(
      blamed({{.rank = 0, .wait_status = exited(75)}, {.rank = 1, .wait_status = SIGTERM, .signal_sent = SIGTERM}}), 0);
}

TEST(FirstFailure, TheClaimWinsOverTheOrderOfEnds) {
  const std::vector<WorkerEnd> ends = {{.rank = 0, .wait_status = exited(76)}, {.rank = 1, .wait_status = exited(65)}};
  EXPECT_EQ(blamed(ends), 0);
  EXPECT_EQ(blamed(ends, FailureRecord{.type = "DataError", .rank = 1}), 1);
}

TEST(FirstFailure, AClaimOfAConsequenceLosesToTheCause) {
  EXPECT_EQ(blamed({{.rank = 0, .wait_status = exited(75)}, {.rank = 1, .wait_status = SIGKILL}},
                   FailureRecord{.type = "PeerError", .rank = 0}),
            1);
}

TEST(FirstFailure, AClaimantThatWasStoppedWhileItUnwoundIsStillToBlame) {
  EXPECT_EQ(
      blamed({{.rank = 0, .wait_status = exited(75)}, {.rank = 1, .wait_status = exited(64), .signal_sent = SIGTERM}},
             FailureRecord{.type = "UsageError", .rank = 1}),
      1);
}

TEST(Failure, ARankKilledWhileItUnwoundHasTheCodeOfItsError) {
  const WorkerEnd killed{.rank = 1, .wait_status = SIGKILL, .signal_sent = SIGKILL};
  EXPECT_EQ(exit_code_of(killed, {.type = "DataError", .rank = 1}), 65);
  EXPECT_EQ(exit_code_of(killed, {.kind = FailureKind::kMismatch, .type = "MismatchError", .rank = 1}), 64);
  EXPECT_EQ(exit_code_of(killed, {.type = "ValueError", .rank = 1}), 71);
}

TEST(Failure, ARankKilledByAnotherHasTheCodeOfItsSignal) {
  EXPECT_EQ(exit_code_of({.rank = 1, .wait_status = SIGKILL}, {.type = "DataError", .rank = 1}), 137);
  const WorkerEnd stopped{.rank = 1, .wait_status = SIGKILL, .signal_sent = SIGKILL};
  EXPECT_EQ(exit_code_of(stopped, {.kind = FailureKind::kDied, .rank = 1}), 137);
  EXPECT_EQ(exit_code_of(stopped, {.type = "DataError", .rank = 0}), 137);
}

TEST(Failure, AMismatchIsTheCauseWhicheverRankEndedFirst) {
  const test::TempDir folder;
  const LogFolder logs(folder.path());
  const std::string path = "train";
  const Round round;
  const FailureRecord mismatch{.kind = FailureKind::kMismatch, .message = "different collectives", .rank = 1};
  const WorkerGroupResult result{
      .ends = {{.rank = 0, .wait_status = exited(64)}, {.rank = 1, .wait_status = SIGKILL, .signal_sent = SIGKILL}},
      .claim = mismatch};
  const NodeEnd end = end_of_round({.round = round, .result = result, .logs = logs, .path = path});
  EXPECT_EQ(end.code, 64);
  ASSERT_TRUE(end.cause);
  EXPECT_EQ(end.cause->kind, FailureKind::kMismatch);
  EXPECT_EQ(end.cause->rank, 1);
}

TEST(Failure, CodesAndWordsAreThoseOfAShell) {
  EXPECT_EQ(exit_code(exited(3)), 3);
  EXPECT_EQ(exit_code(SIGKILL), 137);
  EXPECT_EQ(describe_status(exited(3)), "exit code 3");
  EXPECT_EQ(describe_status(SIGKILL), "killed by signal 9 (SIGKILL)");
  EXPECT_EQ(describe_status(SIGSEGV | 0x80), "killed by signal 11 (SIGSEGV)");
}

TEST(Failure, OfAWorkerWithoutAWordSaysHowItEnded) {
  const FailureRecord record = record_of_end({.rank = 3, .pid = 7, .wait_status = SIGKILL});
  EXPECT_EQ(record.kind, FailureKind::kDied);
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(words_of(record), "killed by signal 9 (SIGKILL)");
  EXPECT_GT(record.time_ns, 0);
}

TEST(Failure, ReadsErrorFilesOfOursAndOfTorchelastic) {
  const test::TempDir folder;
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "error.json") << text;
    return read_error_file(folder / "error.json");
  };
  EXPECT_FALSE(read_error_file(folder / "missing.json"));
  const auto ours =
      read(R"({"message": {"message": "DataError: bad", "extraInfo": {"type": "DataError", "timestamp": "1"}}})");
  ASSERT_TRUE(ours);
  EXPECT_EQ(ours->type, "DataError");
  EXPECT_EQ(ours->message, "DataError: bad");
  const auto pythons =
      read(R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "...", "timestamp": "1"}}})");
  ASSERT_TRUE(pythons);
  EXPECT_EQ(pythons->type, "");
  EXPECT_EQ(pythons->message, "ValueError: x");
  EXPECT_EQ(read(R"({"message": "plain"})")->message, "plain");
  for (const char* bad : {"", "{\"message\"", "[1]", "{\"message\": 3}", "{\"message\": {\"extraInfo\": 7}}"})
    (void)read(bad);
}

TEST(Failure, TheReportNamesRankCodeMessageAndLog) {
  EXPECT_EQ(format_report({.end = {.rank = 1, .pid = 42, .wait_status = exited(65)},
                           .host = "box",
                           .error = WorkerError{"DataError", "DataError: bad image\n  next  look"},
                           .last_lines = {"a", "b"},
                           .last_lines_of = "/l/stderr.log"}),
            "lockstep: rank 1 failed first: exit code 65 (pid 42 on box)\n"
            "  error   DataError: bad image\n"
            "            next  look\n"
            "  last lines of /l/stderr.log\n"
            "  | a\n"
            "  | b\n");
}

TEST(Failure, TheReportDoesNotRepeatTheErrorAsTheLastLines) {
  EXPECT_EQ(format_report({.end = {.rank = 1, .pid = 42, .wait_status = exited(65)},
                           .host = "box",
                           .error = WorkerError{"DataError", "DataError: bad image\n  next  look"},
                           .last_lines = {"error: bad image", "  next  look"},
                           .last_lines_of = "/l/stderr.log"}),
            "lockstep: rank 1 failed first: exit code 65 (pid 42 on box)\n"
            "  error   DataError: bad image\n"
            "            next  look\n");
}

// It was slow to leave after its error, and nobody else killed it.
TEST(Failure, TheLaunchersOwnKillIsNoHeadline) {
  const WorkerEnd killed{.rank = 1, .pid = 42, .wait_status = SIGKILL, .signal_sent = SIGKILL};
  const auto headline = [&](const std::optional<WorkerError>& error) {
    const std::string text =
        format_report({.end = killed, .host = "box", .error = error, .last_lines_of = "/l/stderr.log"});
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(headline(WorkerError{"UsageError", "UsageError: bad"}),
            "lockstep: rank 1 failed first: UsageError (pid 42 on box)");
  EXPECT_EQ(headline(WorkerError{"", "ValueError: x"}), "lockstep: rank 1 failed first: an error (pid 42 on box)");
  EXPECT_EQ(headline(std::nullopt), "lockstep: rank 1 failed first: ended by its launcher (pid 42 on box)");
  EXPECT_EQ(words_of(record_of_end(killed)), "ended by its launcher");
  EXPECT_EQ(describe_end({.wait_status = SIGSEGV, .signal_sent = SIGTERM}), "killed by signal 11 (SIGSEGV)");
}

TEST(Failure, NorTheEndOfALongOne) {
  const auto report = [](const std::string& message, const std::vector<std::string>& lines) {
    return format_report({.end = {.rank = 1, .pid = 42, .wait_status = exited(71)},
                          .host = "box",
                          .error = WorkerError{"", message},
                          .last_lines = lines,
                          .last_lines_of = "/l/stderr.log"});
  };
  const std::string repeated = "last lines";
  EXPECT_EQ(report("ProgramError: your program threw\n  #0 a\n  #1 b", {"  #0 a", "  #1 b"}).find(repeated),
            std::string::npos);
  EXPECT_EQ(report("SIGSEGV (rank 1)\n  #0 a", {"error: SIGSEGV (rank 1)", "  #0 a"}).find(repeated),
            std::string::npos);
  EXPECT_NE(report("SIGSEGV (rank 1)\n  #0 a", {"other words"}).find(repeated), std::string::npos);
}

}  // namespace failure_test
}  // namespace lockstep::launch
