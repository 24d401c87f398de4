// SPDX-License-Identifier: Apache-2.0
// The launcher under system limits, and ranks that the kernel killed for running out of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launch/limits.h"
#include "launch/memory_kills.h"
#include "launch/run_fixture.h"
#include "lockstep/base/error.h"
#include "support/process.h"
#include "support/sanitizer.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace limits_test {

using launch::choose_file_limit;
using launch::files_needed;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::seconds kHang{30};

TEST(FileLimit, IsRaisedToTheHardOneButNotBeyondWhatIsPlenty) {
  EXPECT_EQ(choose_file_limit({.soft = 20, .hard = 4096}, 60), 4096U);
  EXPECT_EQ(choose_file_limit({.soft = 1024, .hard = 1'048'576}, 60), 65'536U);
  EXPECT_EQ(choose_file_limit({.soft = 1024, .hard = 1'048'576}, 100'000), 100'000U);
  EXPECT_EQ(choose_file_limit({.soft = 200'000, .hard = 1'048'576}, 60), 200'000U) << "never lowered";
}

TEST(FileLimit, BelowTheNeedIsAnErrorWithBothNumbers) {
  try {
    (void)choose_file_limit({.soft = 20, .hard = 24}, 61);
    FAIL();
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("24 open files are allowed here, but this launcher needs 61"));
    EXPECT_THAT(error.what(), HasSubstr("ulimit -Hn"));
  }
}

TEST(FileLimit, TheNodeThatServesTheStoreNeedsSomeForEveryRankOfTheJob) {
  const AgentOptions one{.command = {"true"}, .processes = 8};
  AgentOptions first = one;
  first.nodes = 4;
  AgentOptions second = first;
  second.node_rank = 1;
  EXPECT_GT(files_needed(first, 4), files_needed(one, 4) + 3 * 8);
  EXPECT_LT(files_needed(second, 4), files_needed(one, 4));
}

TEST(FileLimit, ARunOverHostsNeedsSomeForEachHost) {
  EXPECT_GE(launch::files_needed_for_hosts(300, 4), 4 + 4 * 300U);
  EXPECT_LT(launch::files_needed_for_hosts(1, 4), 32U);
}

class Limits : public ::testing::Test {
 protected:
  // `setting`: a shell command to run before the launcher starts, such as "ulimit -n 20".
  [[nodiscard]] test::ProcessOptions under(const std::string& setting, const std::string& script,
                                           const std::string& before = "") const {
    const std::string lockstep = std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep";
    return {.command = {"bash", "-c", setting + "; exec " + before + " \"$@\"", "bash", lockstep, "run",
                        "--nproc-per-node", "2", "--shutdown-timeout", "2", "--", "sh", "-c", script},
            .environment = {{"MARK", mark_}, {"TMPDIR", folder_.path().string()}, {"LOCKSTEP_LOG", ""}}};
  }

  // True if the launcher itself can be loaded under the limit.
  [[nodiscard]] bool can_load(const std::string& setting) const {
    auto options = under(setting, "true");
    options.command.resize(5);
    options.command.emplace_back("--help");
    return test::run_process(options, kHang).code == 0;
  }

  [[nodiscard]] bool all_gone() const {
    return test::eventually([&] { return test::processes_with("MARK=" + mark_).empty(); }, std::chrono::seconds(10));
  }

  // Runs two ranks that end on their own, and two that are asked to end.
  void expect_an_end(const std::string& setting, const std::string& before = "") const {
    SCOPED_TRACE(setting);
    // 2, 127, 137 and 139: a rank whose shell could not start a program, whose program could not be loaded, or that the
    // kernel killed for running out of memory. 75 and 76: the store's thread had no memory for one request, or for any.
    const auto is_documented = AnyOf(0, 2, 69, 75, 76, 127, 137, 139);
    const auto ended = test::run_process(under(setting, "exit 0", before), kHang);
    EXPECT_FALSE(ended.timed_out) << ended.err;
    EXPECT_THAT(ended.code, is_documented) << ended.err;
    const std::size_t error = ended.err.find("error: ");  // a warning about programs with libtorch names ulimit too
    EXPECT_EQ(ended.code == 69, ended.err.find("ulimit", error) != std::string::npos) << ended.err;
    EXPECT_THAT(ended.err, Not(HasSubstr("pid 0")));
    test::Process told(under(setting, "echo up; exec sleep 1000", before));
    (void)told.wait_for_output("up", kHang);
    told.signal(SIGTERM);
    const auto stopped = told.wait(kHang);
    EXPECT_FALSE(stopped.timed_out) << stopped.err;
    EXPECT_THAT(stopped.code, AnyOf(143, is_documented)) << stopped.err;
    EXPECT_TRUE(all_gone());
  }

  test::TempDir folder_;
  const std::string mark_ = folder_.path().filename().string();
};

TEST_F(Limits, OfFilesEndInOneErrorAtTheStart) {
  for (int files = 8; files <= 80; files += files < 32 ? 1 : 7) {
    const std::string setting = "ulimit -n " + std::to_string(files);
    if (can_load(setting)) expect_an_end(setting);
  }
  const auto result = test::run_process(under("ulimit -n 22", "exit 0"), kHang);
  EXPECT_EQ(result.code, 69);
  EXPECT_THAT(result.err, ::testing::StartsWith("error: 22 open files are allowed here"));
}

TEST_F(Limits, OfFilesThatAreSoftAreRaised) {
  const auto result = test::run_process(under("ulimit -S -n 22", "ulimit -n"), kHang);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, Not(HasSubstr(": 22\n")));
}

TEST_F(Limits, OfMemoryEndInACodeThatIsDocumented) {
  for (int megabytes = 8; megabytes <= 264; megabytes += megabytes < 40 ? 4 : 32) {
    const std::string setting = "ulimit -v " + std::to_string(megabytes * 1024);
    if (can_load(setting)) expect_an_end(setting);
  }
}

// Without this check, the program would hang or be killed before main().
TEST_F(Limits, OfMemoryThatTheWorkersLibrariesExceedAreAnErrorAtTheStart) {
  if (test::kAnySanitizer) GTEST_SKIP() << "a sanitizer needs terabytes of addresses itself";
  const std::string lockstep = std::string(LOCKSTEP_TEST_BIN_DIR) + "/lockstep";
  for (const char* arguments : {"inspect env", "bench memory --nproc-per-node 2"}) {
    const auto result = test::run_process(
        {.command = {"bash", "-c", "ulimit -v 700000; exec " + lockstep + " " + arguments},
         .environment = {{"OMP_NUM_THREADS", "4"}, {"OPENBLAS_NUM_THREADS", ""}, {"GOTO_NUM_THREADS", ""}}},
        kHang);
    EXPECT_EQ(result.code, 69) << result.err;
    EXPECT_THAT(result.err, HasSubstr("the limit on address space (ulimit -v) is 716.8 MB, and lockstep-worker needs"));
  }
}

TEST_F(Limits, OfMemoryAreAWarningOfRunWhoseProgramMayNotNeedTheLibraries) {
  if (test::kAnySanitizer) GTEST_SKIP() << "a sanitizer needs terabytes of addresses itself";
  const auto result = test::run_process(
      {.command = {"bash", "-c", "ulimit -v 700000; exec " LOCKSTEP_TEST_BIN_DIR "/lockstep run -- true"},
       .environment = {{"OMP_NUM_THREADS", "4"}, {"OPENBLAS_NUM_THREADS", ""}, {"GOTO_NUM_THREADS", ""}}},
      kHang);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("the limit on address space (ulimit -v) is 716.8 MB, and a program that uses libtorch needs"));
}

TEST_F(Limits, OfCpuTimeAreNamedIfTheKernelKillsARank) {
  const auto result = test::run_process(
      {.command = {"bash", "-c",
                   "ulimit -t 1; exec " LOCKSTEP_TEST_BIN_DIR "/lockstep run -- sh -c 'while :; do :; done'"}},
      kHang);
  EXPECT_EQ(result.code, 128 + SIGKILL) << result.err;
  EXPECT_THAT(result.err, HasSubstr("each rank has a limit on CPU time, 1.0 s (ulimit -t)"));
}

// The kernel does not limit root's processes, so as root, the test runs the launcher as another user.
TEST_F(Limits, OfProcessesEndInACodeThatIsDocumented) {
  const bool is_root = ::geteuid() == 0;
  const std::string user = std::to_string(100'000 + ::getpid());  // no other user has it
  const std::string before =
      is_root ? "setpriv --reuid " + user + " --regid " + user + " --clear-groups --inh-caps=-all" : "";
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  for (int more = 1; more <= 9; ++more) {
    // For our own user, other programs' threads count too: the limit is a little above their current number.
    const std::string there =
        is_root ? "0" : "$(find /proc -maxdepth 3 -path '/proc/[0-9]*/task/*' -user $(id -u) 2>/dev/null | wc -l)";
    expect_an_end("ulimit -u $((" + there + " + " + std::to_string(more) + "))", before);
  }
}

TEST_F(Limits, ALimitThatIsLoweredUnderTheLauncherDoesNotMakeItDeaf) {
  test::Process agent(under(":", "echo up; exec sleep 1000"));
  ASSERT_TRUE(agent.wait_for_output("up"));
  const rlimit few{2, 2};
  ASSERT_EQ(::prlimit(agent.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  agent.signal(SIGTERM);
  const auto result = agent.wait(kHang);
  EXPECT_EQ(result.code, 143) << result.err;
  EXPECT_TRUE(all_gone());
}

// Its output goes to a full pipe that no process is reading.
TEST_F(Limits, APagerThatDoesNotReadDoesNotMakeItDeaf) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  auto options = under("exec > /proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ends[1]),
                       "head -c 200000 /dev/zero | tr '\\0' x; echo > $TMPDIR/done-$RANK");
  test::Process agent(options);
  ASSERT_TRUE(test::eventually([&] {
    return std::filesystem::exists(folder_ / "done-0") && std::filesystem::exists(folder_ / "done-1") &&
           test::processes_with("MARK=" + mark_) == std::vector<pid_t>{agent.pid()};
  }));
  agent.signal(SIGTERM);
  const auto result = agent.wait(kHang);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.code, 143) << result.err;
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace limits_test
}  // namespace lockstep

namespace lockstep::launch {
namespace limits_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MemoryKillsTest : public run_test::Run {
 protected:
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
};

TEST_F(MemoryKillsTest, AreReadFromTheCountersOfBothVersionsOfCgroups) {
  write("two/proc/self/cgroup", "0::/job\n");
  write("two/sys/fs/cgroup/job/memory.max", "2000000000\n");
  write("one/proc/self/cgroup", "5:cpu:/x\n4:cpuset,memory:/of/the/host\n0::/\n");
  write("one/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
  const auto set = [&](int kills) {
    write("two/sys/fs/cgroup/job/memory.events", "max 7\noom 1\noom_kill " + std::to_string(kills) + "\n");
    write("one/sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill " + std::to_string(kills) + "\n");
  };
  for (const char* version : {"one", "two"}) {
    set(3);
    MemoryKills kills(folder_ / version);
    EXPECT_EQ(kills.why(7), "") << "those before do not count";
    set(4);
    EXPECT_THAT(
        kills.why(7),
        StartsWith("the kernel killed it: it exceeded the memory limit of this container or job (2.0 GB)\nnext  "));
    EXPECT_EQ(kills.why(7), "") << "the next one may have another reason";
  }
}

TEST_F(MemoryKillsTest, AreReadFromTheKernelsMessages) {
  write("dev/kmsg", "");
  MemoryKills kills(folder_.path());
  EXPECT_EQ(kills.why(123), "");
  write("dev/kmsg", "3,9,9,-;Out of memory: Killed process 123 (train) total-vm:1kB");
  EXPECT_EQ(kills.why(12), "");
  MemoryKills again(folder_.path());
  write("dev/kmsg", std::string(58, ' ') + "3,9,9,-;Out of memory: Killed process 123 (train) total-vm:1kB");
  EXPECT_THAT(again.why(123), StartsWith("the kernel killed it: this machine was out of memory\n"));
}

TEST_F(MemoryKillsTest, OfARankAreItsCauseInTheReport) {
  if (test::kAddressSanitizer) GTEST_SKIP() << "a launcher with the address sanitizer needs more memory itself";
  const fs::path group = "/sys/fs/cgroup/memory/lockstep-" + std::to_string(::getpid());
  std::error_code problem;
  if (!fs::create_directory(group, problem)) GTEST_SKIP() << "no cgroup can be made here: " << problem.message();
  std::ofstream(group / "memory.limit_in_bytes") << (64 << 20);
  std::ofstream(group / "memory.memsw.limit_in_bytes") << (64 << 20);
  auto options = command({"--nproc-per-node", "2", "--", "sh", "-c",
                          "[ $RANK = 0 ] && exec sleep 100; exec perl -e '$x = \"a\" x 300000000; sleep 100'"});
  options.command.insert(options.command.begin(),
                         {"sh", "-c", "echo $$ > " + (group / "cgroup.procs").string() + "; exec \"$@\"", "sh"});
  const auto result = test::run_process(options);
  EXPECT_TRUE(all_gone());
  EXPECT_TRUE(test::eventually([&] { return fs::remove(group, problem); }));
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(result.err, HasSubstr("lockstep: rank 1 failed first: killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(result.err,
              HasSubstr("error   the kernel killed it: it exceeded the memory limit of this container or job (67"));
  EXPECT_THAT(result.err, HasSubstr("next  use less memory"));
}

}  // namespace limits_test
}  // namespace lockstep::launch
