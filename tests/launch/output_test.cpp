// SPDX-License-Identifier: Apache-2.0
// The output of ranks: lines, log folders, and which failure is reported first.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "launch/failure.h"
#include "launch/output/line_mux.h"
#include "launch/output/log_folder.h"
#include "launch/output/temporary_logs.h"
#include "launch/worker_group.h"
#include "lockstep/base/text.h"
#include "support/temp_dir.h"

namespace lockstep::launch {
namespace output_test {

// A console whose two streams end up in one string, as on a terminal.
class Screen {
 public:
  explicit Screen(const MuxOptions& options) : mux(options, [this](int, std::string_view bytes) { text += bytes; }) {}
  std::string take() { return std::exchange(text, ""); }

  std::string text;
  LineMux mux;
};

TEST(LineMux, LinesAreWholeWhateverThePieces) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(0, 0, "hel");
  screen.mux.feed(1, 0, "other\n");
  screen.mux.feed(0, 0, "lo\nnext");
  EXPECT_EQ(screen.take(), "[1]: other\n[0]: hello\n");
  screen.mux.finish(0, 0);
  EXPECT_EQ(screen.take(), "[0]: next\n");
  screen.mux.finish(0, 0);
  EXPECT_EQ(screen.take(), "");
}

// Each piece is written in a single call.
TEST(LineMux, TheLinesOfOneReadingAreOnePiece) {
  std::vector<std::string> pieces;
  LineMux mux({.style = ConsoleStyle::kPrefix}, [&](int, std::string_view bytes) { pieces.emplace_back(bytes); });
  mux.feed(0, 0, "be");
  mux.feed(0, 0, "gun\na\nb\nc\nrest");
  EXPECT_EQ(pieces, (std::vector<std::string>{"[0]: begun\n[0]: a\n[0]: b\n[0]: c\n"}));
}

TEST(LineMux, AnEmptyLineIsALine) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(0, 0, "a\n\nb\r\n");
  EXPECT_EQ(screen.take(), "[0]: a\n[0]: \n[0]: b\n");
}

TEST(LineMux, OfABarAFileGetsOnlyTheLastPiece) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(0, 1, "\r10%");
  screen.mux.feed(0, 1, "\r20%");
  screen.mux.feed(1, 1, "10%\r");
  screen.mux.feed(1, 1, "20%\r");
  EXPECT_EQ(screen.take(), "");
  screen.mux.feed(0, 1, "\r100%\n");
  screen.mux.feed(1, 1, "100%\r\n");
  EXPECT_EQ(screen.take(), "[0]: 100%\n[1]: 100%\n");
}

TEST(LineMux, ATerminalShowsTheBarOfRankZeroBelowTheLines) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(0, 1, "\r10%");
  EXPECT_EQ(screen.take(), "\r\033[K10%");
  screen.mux.feed(1, 1, "\r11%");
  EXPECT_EQ(screen.take(), "");
  screen.mux.feed(1, 0, "hello\n");
  EXPECT_EQ(screen.take(), "\r\033[K[1]: hello\n10%");
  screen.mux.feed(0, 1, "\r20%\r");
  EXPECT_EQ(screen.take(), "\r\033[K20%");
  screen.mux.feed(0, 1, "30%\n");
  EXPECT_EQ(screen.take(), "\r\033[K[0]: 30%\n");
}

TEST(LineMux, ABarWiderThanTheTerminalIsCut) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(0, 1, "\r\u2588\u2588" + std::string(30, 'x'));
  EXPECT_EQ(screen.take(), "\r\033[K\u2588\u2588" + std::string(18, 'x'));
}

TEST(LineMux, AQuestionShowsAfterAMoment) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(1, 0, "go on? ");
  EXPECT_TRUE(screen.mux.wants_idle());
  screen.mux.idle();
  EXPECT_EQ(screen.take(), "\r\033[K[1]: go on? ");
  EXPECT_FALSE(screen.mux.wants_idle());
  screen.mux.feed(1, 0, "yes\n");
  EXPECT_EQ(screen.take(), "\r\033[K[1]: go on? yes\n");
}

TEST(LineMux, MainRawPassesRankZeroAndTheOthersErrors) {
  Screen screen({.style = ConsoleStyle::kMainRaw});
  screen.mux.feed(0, 0, "epoch 1\n");
  screen.mux.feed(1, 0, "not shown\n");
  screen.mux.feed(1, 1, "shown\n");
  EXPECT_EQ(screen.take(), "epoch 1\n[1]: shown\n");
}

TEST(LineMux, MainRawLeavesTheOthersErrorsToTheReport) {
  Screen screen({.style = ConsoleStyle::kMainRaw});
  screen.mux.feed(1, 1, "warning: slow disk\nerror: no such image\n  next  look\nnote: after it\n");
  screen.mux.feed(0, 1, "error: no such image\n  next  look\n");
  EXPECT_EQ(screen.take(), "[1]: warning: slow disk\n[1]: note: after it\nerror: no such image\n  next  look\n");
}

TEST(LineMux, AnErrorThatEveryRankHasIsPrintedOnce) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  screen.mux.feed(1, 1, "error: no such image\n  next  look\nbye\n");
  screen.mux.feed(0, 1, "error: no such image\n  next  look\nbye\n");
  screen.mux.feed(2, 1, "error: another\n  next  look\n");
  EXPECT_EQ(screen.take(),
            "[1]: error: no such image\n[1]:   next  look\n[1]: bye\n[0]: bye\n"
            "[2]: error: another\n[2]:   next  look\n");
  screen.mux.feed(1, 1, "error: no such image\n");
  EXPECT_EQ(screen.take(), "[1]: error: no such image\n") << "what one rank says twice is shown twice";
}

TEST(LineMux, AnErrorInColourIsTheSameError) {
  Screen screen({.style = ConsoleStyle::kPrefix, .is_terminal = {true, true}, .width = 60});
  screen.mux.feed(0, 1, "\033[1;31merror:\033[0m no such image\n  next  look\n");
  screen.mux.feed(1, 1, "error: no such image\n  next  look\n");
  EXPECT_EQ(screen.take(), "[0]: \033[1;31merror:\033[0m no such image\n[0]:   next  look\n");
}

TEST(LineMux, MainRawRestoresTheBarAfterAnothersLine) {
  Screen screen({.style = ConsoleStyle::kMainRaw, .is_terminal = {true, true}, .width = 20});
  screen.mux.feed(0, 1, "title\n\r\033[32m10%\033[0m");
  EXPECT_EQ(screen.take(), "title\n\r\033[32m10%\033[0m");
  screen.mux.feed(1, 1, "warn\n");
  EXPECT_EQ(screen.take(), "\r\033[K[1]: warn\n\033[32m10%\033[0m");
  screen.mux.feed(0, 1, "\r20%\n");
  EXPECT_EQ(screen.take(), "\r20%\n");
  screen.mux.feed(1, 1, "warn\n");
  EXPECT_EQ(screen.take(), "[1]: warn\n");
}

TEST(LineMux, AnEndlessLineDoesNotFillTheMemory) {
  Screen screen({.style = ConsoleStyle::kPrefix});
  for (int i = 0; i < 100; ++i) screen.mux.feed(0, 0, std::string(1000, 'x'));
  EXPECT_GT(screen.take().size(), 60000U);
}

int exited(int code) { return code << 8; }

int blamed(const std::vector<WorkerEnd>& ends, std::optional<FailureRecord> claim = std::nullopt) {
  const auto found = first_of(ends, claim);
  return found ? found->rank : -1;
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

// A node joins, the ranks are asked to save, and one fails at that very moment.
TEST(Failure, ThatWouldComeAgainIsNoEndByRequest) {
  const test::TempDir folder;
  const LogFolder logs(folder.path());
  const std::string path = "train";
  const Round round;
  const auto is_by_request = [&](const char* type) {
    const WorkerGroupResult result{.ends = {{.wait_status = exited(70), .signal_sent = SIGTERM}},
                                   .was_asked_to_save = true,
                                   .claim = FailureRecord{.type = type, .message = "torn", .rank = 0}};
    return end_of_round({.round = round, .result = result, .logs = logs, .path = path}).left_by_request;
  };
  EXPECT_FALSE(is_by_request("DataError"));
  EXPECT_TRUE(is_by_request("PeerError"));
  EXPECT_TRUE(is_by_request("")) << "a program whose handler of SIGTERM exits with a code of its own";
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
  EXPECT_EQ(ours->message, "bad");
  EXPECT_EQ(words_of(*ours), "DataError: bad");
  EXPECT_EQ(ours->erred, -1);
  EXPECT_EQ(read(R"({"message": {"message": "x", "extraInfo": {"type": "CorruptionError", "erred": 2}}})")->erred, 2);
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
  EXPECT_EQ(format_report({.rank = 1, .pid = 42, .wait_status = exited(65)},
                          {.type = "DataError", .message = "bad image\n  next  look", .host = "box"}, {"a", "b"},
                          "/l/stderr.log"),
            "lockstep: rank 1 failed first: exit code 65 (pid 42 on box)\n"
            "  error   DataError: bad image\n"
            "            next  look\n"
            "  last lines of /l/stderr.log\n"
            "  | a\n"
            "  | b\n");
}

TEST(Failure, TheReportDoesNotRepeatTheErrorAsTheLastLines) {
  EXPECT_EQ(format_report({.rank = 1, .pid = 42, .wait_status = exited(65)},
                          {.type = "DataError", .message = "bad image\n  next  look", .host = "box"},
                          {"error: bad image", "  next  look"}, "/l/stderr.log"),
            "lockstep: rank 1 failed first: exit code 65 (pid 42 on box)\n"
            "  error   DataError: bad image\n"
            "            next  look\n");
}

// The rank was slow to exit after its error, so the launcher killed it.
TEST(Failure, TheLaunchersOwnKillIsNoHeadline) {
  const WorkerEnd killed{.rank = 1, .pid = 42, .wait_status = SIGKILL, .signal_sent = SIGKILL};
  const auto headline = [&](const std::string& type, const std::string& message) {
    return text::first_line(format_report(killed, {.type = type, .message = message, .host = "box"}, {}, "stderr.log"));
  };
  EXPECT_EQ(headline("UsageError", "bad"), "lockstep: rank 1 failed first: UsageError (pid 42 on box)");
  EXPECT_EQ(headline("", "ValueError: x"), "lockstep: rank 1 failed first: an error (pid 42 on box)");
  EXPECT_EQ(headline("", ""), "lockstep: rank 1 failed first: ended by its launcher (pid 42 on box)");
  EXPECT_EQ(words_of(record_of_end(killed)), "ended by its launcher");
  EXPECT_EQ(describe_end({.wait_status = SIGSEGV, .signal_sent = SIGTERM}), "killed by signal 11 (SIGSEGV)");
}

TEST(Failure, NorTheEndOfALongOne) {
  const auto report = [](const std::string& message, const std::vector<std::string>& lines) {
    return format_report({.rank = 1, .pid = 42, .wait_status = exited(71)}, {.message = message, .host = "box"}, lines,
                         "/l/stderr.log");
  };
  const std::string repeated = "last lines";
  EXPECT_EQ(report("ProgramError: your program threw\n  #0 a\n  #1 b", {"  #0 a", "  #1 b"}).find(repeated),
            std::string::npos);
  EXPECT_EQ(report("SIGSEGV (rank 1)\n  #0 a", {"error: SIGSEGV (rank 1)", "  #0 a"}).find(repeated),
            std::string::npos);
  EXPECT_EQ(words_of({.type = "SIGSEGV", .message = "SIGSEGV (rank 1)"}), "SIGSEGV (rank 1)");
  EXPECT_NE(report("SIGSEGV (rank 1)\n  #0 a", {"other words"}).find(repeated), std::string::npos);
}

}  // namespace output_test
}  // namespace lockstep::launch

namespace lockstep {
namespace output_test {

namespace fs = std::filesystem;
using launch::LogFolder;

/// The test's own temporary folder, with old logs.
class TemporaryLogs : public ::testing::Test {
 protected:
  TemporaryLogs() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~TemporaryLogs() override { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }

  [[nodiscard]] fs::path at(int number) const { return folder_ / fmt::format("lockstep-logs-old{:03}", number); }

  static void set_age(const fs::path& path, int days) {
    const timespec time{::time(nullptr) - days * 86'400L, 0};
    const timespec both[2] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW), 0);
  }

  /// Adds the logs of a run that failed `number` days ago.
  void add(int number) const {
    fs::create_directories(at(number) / "attempt_0" / "rank-0");
    std::ofstream(at(number) / "attempt_0" / "rank-0" / "stderr.log") << "it failed\n";
    set_age(at(number), number);
  }

  [[nodiscard]] std::ptrdiff_t count() const {
    return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
  }

  test::TempDir folder_;

 private:
  const std::optional<std::string> before_ = [] {
    const char* value = std::getenv("TMPDIR");
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }();
};

TEST_F(TemporaryLogs, OfFailedRunsStayTheNewestTwenty) {
  for (int number = 1; number <= 25; ++number) add(number);
  { const LogFolder fails({}); }
  EXPECT_EQ(count(), 20);
  EXPECT_TRUE(fs::exists(at(19) / "attempt_0" / "rank-0" / "stderr.log"));
  EXPECT_FALSE(fs::exists(at(20)));
  for (int i = 0; i < 30; ++i) const LogFolder fails({});
  EXPECT_EQ(count(), 20);
}

TEST_F(TemporaryLogs, OfARunThatSucceedsDoNotStay) {
  {
    LogFolder succeeds({});
    EXPECT_EQ(count(), 1);
    succeeds.remove();
  }
  EXPECT_EQ(count(), 0);
}

TEST_F(TemporaryLogs, OfARunThatStillRunsStayHoweverOldTheyAre) {
  const LogFolder runs({});
  set_age(runs.path(), 100);
  for (int number = 1; number <= 25; ++number) add(number);
  { const LogFolder fails({}); }
  EXPECT_TRUE(fs::exists(runs.path()));
  EXPECT_EQ(count(), 21);
}

TEST_F(TemporaryLogs, OfALongRunThatFailsAreNewAtItsEnd) {
  fs::path path;
  {
    const LogFolder fails({});
    path = fails.path();
    for (int number = 1; number <= 25; ++number) add(number);
    set_age(path, 100);
  }
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(count(), 20);
}

TEST_F(TemporaryLogs, LinksAndOtherNamesAreNobodysLogs) {
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directory(elsewhere);
  std::ofstream(elsewhere / "precious") << "mine\n";
  fs::create_directory_symlink(elsewhere, at(900));
  set_age(at(900), 900);
  fs::create_directory_symlink(elsewhere, at(1) += "x");  // not a name from mkdtemp
  for (int number = 1; number <= 25; ++number) add(number);
  fs::create_directory_symlink(elsewhere, at(25) / "attempt_0" / "link");
  for (const char* name : {"lockstep-logs-", "lockstep-logs-my own", "my-lockstep-logs-abcdef"}) {
    fs::create_directory(folder_ / name);
    set_age(folder_ / name, 1000);
  }
  std::ofstream(folder_ / "lockstep-logs-a_file") << "a file\n";
  launch::prune_temporary_logs(folder_.path());
  EXPECT_EQ(count(), 20 + 1 + 2 + 3 + 1);
  EXPECT_FALSE(fs::exists(at(25)));
  EXPECT_TRUE(fs::exists(elsewhere / "precious"));
}

TEST_F(TemporaryLogs, OfAnotherUserStay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make folders of another user";
  for (int number = 1; number <= 25; ++number) add(number);
  ASSERT_EQ(::chown(at(25).c_str(), 65'534, 65'534), 0);
  launch::prune_temporary_logs(folder_.path());
  EXPECT_TRUE(fs::exists(at(25)));
  EXPECT_EQ(count(), 21);
}

}  // namespace output_test
}  // namespace lockstep
