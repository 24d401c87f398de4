// SPDX-License-Identifier: Apache-2.0
// Things that exist once per process: standard streams and signal handlers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/process_stat.h"
#include "lockstep/base/signal_guard.h"
#include "lockstep/base/standard_streams.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace process_test {

using ::testing::HasSubstr;

// Runs `body` in a child, whose exit code is the result; returns how the child ended.
int end_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int limit_files(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  return ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(StandardStreams, AClosedOneIsDevNull) {
  const int end = end_of_child([] {
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    prepare_standard_streams();
    const int next = ::open("/dev/zero", O_RDONLY);
    char byte = 0;
    return next > 2 && ::read(0, &byte, 1) == 0 && ::write(1, "x", 1) == 1 && ::write(2, "x", 1) == 1 ? 0 : 1;
  });
  EXPECT_EQ(end, 0);
}

TEST(StandardStreams, AnOpenOneStaysAsItIs) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const int end = end_of_child([&] {
    ::dup2(ends[1], 1);
    prepare_standard_streams();
    return ::write(1, "x", 1) == 1 ? 0 : 1;
  });
  char byte = 0;
  EXPECT_EQ(end, 0);
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  for (const int fd : ends) ::close(fd);
}

TEST(StandardStreams, AReaderThatLeftEndsNothing) {
  const int end = end_of_child([] {
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    prepare_standard_streams();
    ::close(ends[0]);
    return ::write(ends[1], "x", 1) < 0 && errno == EPIPE ? 0 : 2;
  });
  EXPECT_EQ(end, 0);
}

TEST(StandardStreams, AFullDiskBehindAStreamThrowsNothing) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  std::setvbuf(full, nullptr, _IONBF, 0);
  EXPECT_NO_THROW(print_to(full, "{} lines\n", 3));
  std::fclose(full);
}

/// Prints `text` to the descriptor in a child. Returns 0 if require_output() accepts it, 74 if it throws the IoError
/// that says `reason`.
int end_of_output(int fd, const std::string& text, const std::string& reason) {
  return end_of_child([&] {
    prepare_standard_streams();
    ::dup2(fd, STDOUT_FILENO);
    write_to(stdout, text);
    try {
      require_output();
    } catch (const IoError& error) {
      return error.message() == "standard output was not written completely: " + reason ? 74 : 1;
    }
    return 0;
  });
}

TEST(StandardStreams, AResultThatAFullDiskLosesIsAnError) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const std::string reason = "No space left on device";
  EXPECT_EQ(end_of_output(full, "short", reason), 74) << "the text is still in the buffer at the end";
  EXPECT_EQ(end_of_output(full, std::string(1'000'000, 'x'), reason), 74) << "an earlier write failed";
  ::close(full);
}

TEST(StandardStreams, AResultWhoseReaderLeftIsNoError) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(end_of_output(ends[1], "short", ""), 0);
  EXPECT_EQ(end_of_output(ends[1], std::string(1'000'000, 'x'), ""), 0);
  ::close(ends[1]);
}

TEST(StandardStreams, AFileThatIsTooLargeIsAnErrorWithTheLimit) {
  const test::TempDir folder;
  const int end = end_of_child([&] {
    if (limit_files(4096) != 0) return 1;
    prepare_standard_streams();
    try {
      const std::string bytes(10'000, 'x');
      FileSystem::system().create(folder / "file")->append(bytes.data(), bytes.size());
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("File too large: the limit of this shell is 4,096 bytes (ulimit -f)"));
      EXPECT_THAT(error.what(), HasSubstr("next  raise the limit: ulimit -f unlimited"));
      return ::testing::Test::HasFailure() ? 3 : 0;
    }
    return 2;
  });
  EXPECT_EQ(end, 0);
}

TEST(StandardStreams, OtherProgramsHaveTheDefaultAndAnIgnoredSignalStays) {
  const test::TempDir folder;
  const std::string command = "exec head -c 100000 /dev/zero 2> /dev/null > " + (folder / "file").string();
  const auto end_of_writer = [&] {
    return end_of_child([&] {
      if (limit_files(4096) != 0) return 2;
      prepare_standard_streams();
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      return 3;
    });
  };
  EXPECT_EQ(end_of_writer(), 128 + SIGXFSZ);
  ::signal(SIGXFSZ, SIG_IGN);
  EXPECT_EQ(end_of_writer(), 1) << "head says that the file is too large";
  ::signal(SIGXFSZ, SIG_DFL);
}

bool is_blocked(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(ProcessStat, FindsTheStateAfterANameWithBracketsAndSpaces) {
  EXPECT_EQ(fields_of_stat("17 (a) b (c) S 1 2"), "S 1 2");
  EXPECT_EQ(fields_of_stat("17 (torn"), "");
  EXPECT_EQ(fields_of_stat("17 (torn) "), "");
}

TEST(SignalGuard, BlocksSignalsForAThreadThatIsStartedUnderItAndRestoresThemInItsOwn) {
  bool blocked_there = false;
  std::thread thread;
  {
    const SignalGuard guard;
    EXPECT_TRUE(is_blocked(SIGINT));
    thread = std::thread([&] { blocked_there = is_blocked(SIGINT) && is_blocked(SIGTERM); });
  }
  EXPECT_FALSE(is_blocked(SIGINT));
  thread.join();
  EXPECT_TRUE(blocked_there);
}

TEST(SignalGuard, LeavesCrashSignalsToTheThreadThatCausesThem) {
  const SignalGuard guard;
  for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) EXPECT_FALSE(is_blocked(crash)) << crash;
}

TEST(SignalGuard, LeavesASignalBlockedThatWasSoBefore) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);
  { const SignalGuard guard; }
  EXPECT_TRUE(is_blocked(SIGUSR1));
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

}  // namespace process_test
}  // namespace lockstep
