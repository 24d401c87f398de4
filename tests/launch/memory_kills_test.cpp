// SPDX-License-Identifier: Apache-2.0
#include "launch/memory_kills.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "launch/run_fixture.h"
#include "support/sanitizer.h"

namespace lockstep::launch {
namespace memory_kills_test {

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
    EXPECT_THAT(kills.why(7),
                StartsWith("the kernel killed it: the memory that this container or job is allowed (2.0 GB) "
                           "was used up\nnext  "));
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
              HasSubstr("error   the kernel killed it: the memory that this container or job is allowed (67"));
  EXPECT_THAT(result.err, HasSubstr("next  use less memory"));
}

}  // namespace memory_kills_test
}  // namespace lockstep::launch
