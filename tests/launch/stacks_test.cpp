// SPDX-License-Identifier: Apache-2.0
// Stacks of real processes: the test re-executes itself as a hanging process, and inspects it from outside and inside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "launch/hangs/late_stacks.h"
#include "launch/hangs/process_state.h"
#include "launch/hangs/self_report.h"
#include "launch/hangs/stack_reader.h"
#include "launch/hangs/stack_words.h"
#include "lockstep/base/fault.h"
#include "support/process.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace lockstep {

// The function that must appear in the stacks.
[[gnu::noinline]] void loops_for_ever() {
  volatile bool for_ever = true;
  while (for_ever) continue;
}

[[gnu::noinline]] void stops_itself() {
  ::raise(SIGSTOP);
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] void sleeps_in_a_lock(std::mutex& mutex) {
  const std::lock_guard lock(mutex);
  asm volatile("" ::: "memory");
}

namespace launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kLimit = std::chrono::seconds(20);
std::string own_path;

/// A process that hangs in the given way and has reached that point.
class Hanging {
 public:
  Hanging(const std::string& way, char state)
      : process_({.command = {own_path, "program", way},
                  .environment = {{"LOCKSTEP_ERROR_FILE", (folder_ / "error.json").string()}}}) {
    process_.wait_for_output("ready");
    test::eventually([&] { return this->state() == state; });
  }

  [[nodiscard]] char state() const { return read_process(process_.pid()).value_or(flight::ProcessState{}).state; }
  [[nodiscard]] std::vector<std::string> stacks() const { return words_of(read_stacks(process_.pid(), kLimit)); }
  [[nodiscard]] LateProcess late() const {
    return {.pid = process_.pid(), .state = state(), .stack_file = folder_ / fault::kStackFile};
  }
  [[nodiscard]] bool is_traced() const {
    std::ifstream in("/proc/" + std::to_string(process_.pid()) + "/status");
    const std::string status{std::istreambuf_iterator<char>(in), {}};
    return status.find("TracerPid:\t0\n") == std::string::npos;
  }
  test::Process& process() { return process_; }

 private:
  test::TempDir folder_;
  test::Process process_;
};

// A process that has reported itself ready may not have reached the loop yet.
template <class Read>
bool eventually_has(Read read, const std::string& words) {
  return test::eventually([&] {
    const auto lines = read();
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(words) != std::string::npos; });
  });
}

TEST(Stacks, OfABusyProcessNameTheFunctionAndItRunsOn) {
  Hanging rank("loop", 'R');
  EXPECT_TRUE(eventually_has([&] { return rank.stacks(); }, "#0 lockstep::loops_for_ever()"));
  EXPECT_FALSE(rank.is_traced());
  EXPECT_TRUE(test::eventually([&] { return rank.state() == 'R'; }));
}

TEST(Stacks, OfAStoppedProcessNameTheFunctionAndItStaysStopped) {
  Hanging rank("stop", 'T');
  EXPECT_THAT(rank.stacks(), Contains(HasSubstr("lockstep::stops_itself()")));
  EXPECT_FALSE(rank.is_traced());
  EXPECT_TRUE(test::eventually([&] { return rank.state() == 'T'; }));
  rank.process().signal(SIGCONT);
  EXPECT_EQ(rank.process().wait().code, 0);
}

TEST(Stacks, OfAProcessThatSleepsInALockNameItsThreadsToo) {
  Hanging rank("lock", 'S');
  const auto lines = rank.stacks();
  EXPECT_THAT(lines, Contains(HasSubstr("lockstep::sleeps_in_a_lock(std::mutex&)")));
  EXPECT_THAT(lines, Contains(HasSubstr("(main)")));
  EXPECT_THAT(lines, Contains(HasSubstr("lockstep::loops_for_ever()")));
  EXPECT_FALSE(rank.is_traced());
  EXPECT_TRUE(test::eventually([&] { return rank.state() == 'S'; }));
}

TEST(Stacks, AreNotWaitedForBeyondTheLimit) {
  Hanging rank("lock", 'S');
  const auto begin = std::chrono::steady_clock::now();
  const ProcessStacks stacks = read_stacks(rank.process().pid(), std::chrono::milliseconds(0));
  EXPECT_TRUE(stacks.is_cut);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  // The reading thread detaches on its own.
  EXPECT_TRUE(test::eventually([&] { return !rank.is_traced() && rank.state() == 'S'; }));
}

TEST(Stacks, OfAProcessThatIsGoneAreRefused) {
  Hanging rank("stop", 'T');
  const pid_t pid = rank.process().pid();
  rank.process().signal(SIGKILL);
  (void)rank.process().wait();
  EXPECT_NE(read_stacks(pid, kLimit).refusal, 0);
}

TEST(Stacks, TheRankWritesItsOwnAtTheSignalAndGoesOn) {
  if (test::kThreadSanitizer)
    GTEST_SKIP() << "the thread sanitizer keeps a signal back until the program calls something";
  Hanging rank("loop", 'R');
  StackSources sources = system_sources();
  sources.outside = [](pid_t pid) { return ProcessStacks{.pid = pid, .refusal = EPERM}; };
  sources.inside = [](const LateProcess& late) { return ask_for_stack(late.pid, late.stack_file, kLimit); };
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(eventually_has([&] { return stacks_of(rank.late(), sources); }, "#0 lockstep::loops_for_ever()"));
  }
  EXPECT_THAT(stacks_of(rank.late(), sources).at(0), HasSubstr("ptrace is not permitted"));
  EXPECT_TRUE(test::eventually([&] { return rank.state() == 'R'; }));
}

TEST(Stacks, AProgramWithoutTheHandlerIsNotEndedByTheSignal) {
  Hanging rank("plain", 'R');
  EXPECT_EQ(ask_for_stack(rank.late().pid, rank.late().stack_file, kLimit).problem,
            "its program does not handle the signal");
  EXPECT_EQ(rank.state(), 'R');
}

}  // namespace
}  // namespace launch

int hang(const std::string& way) {
  if (way != "plain") fault::install_reports();
  std::mutex mutex;
  if (way == "lock") {
    mutex.lock();
    std::thread([] { loops_for_ever(); }).detach();
  }
  std::puts("ready");
  (void)std::fflush(stdout);
  if (way == "stop") {
    stops_itself();
    return 0;
  }
  if (way == "lock") sleeps_in_a_lock(mutex);
  loops_for_ever();
  return 1;
}

}  // namespace lockstep

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "program") return lockstep::hang(argv[2]);
  lockstep::launch::own_path = std::filesystem::read_symlink("/proc/self/exe");
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
