// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/control_group.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>

#include "support/temp_dir.h"

namespace lockstep {
namespace control_group_test {

namespace fs = std::filesystem;
using test::TempDir;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(ControlGroup, TheTightestOfTheSecondVersionCounts) {
  TempDir root;
  write(root / "proc/self/cgroup", "0::/user/job\n");
  write(root / "sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  write(root / "sys/fs/cgroup/user/cpu.max", "150000 100000\n");
  write(root / "sys/fs/cgroup/user/job/memory.max", "8000000000\n");
  write(root / "sys/fs/cgroup/user/job/memory.current", "5000000000\n");
  write(root / "sys/fs/cgroup/user/job/memory.stat", "anon 1\ninactive_file 1000000000\n");
  write(root / "sys/fs/cgroup/user/memory.max", "9000000000\n");
  write(root / "sys/fs/cgroup/user/job/pids.max", "max\n");
  const GroupLimits limits = read_control_group(root.path());
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.memory, 8'000'000'000U);
  EXPECT_EQ(limits.memory_used, 4'000'000'000U);
  EXPECT_FALSE(limits.tasks);
}

TEST(ControlGroup, TheFirstVersionHasAFolderForEachController) {
  TempDir root;
  write(root / "proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n3:pids:/docker/x\n1:name=systemd:/\n");
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");  // as a container sees it: its own group is the root
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write(root / "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
  write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
  write(root / "sys/fs/cgroup/memory/memory.usage_in_bytes", "700\n");
  write(root / "sys/fs/cgroup/memory/memory.stat", "total_inactive_file 300\n");
  write(root / "sys/fs/cgroup/pids/docker/x/pids.max", "512\n");
  write(root / "sys/fs/cgroup/pids/docker/x/pids.current", "12\n");
  const GroupLimits limits = read_control_group(root.path());
  EXPECT_EQ(limits.cores, 2);
  EXPECT_EQ(limits.memory, 2'000'000'000U);
  EXPECT_EQ(limits.memory_used, 400U);
  EXPECT_EQ(limits.tasks, 512U);
  EXPECT_EQ(limits.tasks_used, 12U);
}

TEST(ControlGroup, NoQuotaIsNoLimit) {
  TempDir root;
  EXPECT_FALSE(read_control_group(root.path()).cores);
  write(root / "proc/self/cgroup", "4:cpu:/\nnonsense\n::\n");
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(read_control_group(root.path()).cores);
}

TEST(ControlGroup, TheFirstVersionMayMountControllersTogether) {
  TempDir root;
  write(root / "proc/self/cgroup", "4:cpu,cpuacct:/a/b\n");
  write(root / "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
  write(root / "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_control_group(root.path()).cores, 1.5);
}

TEST(ControlGroup, APathThatLeadsOutOfTheContainerIsItsRoot) {
  TempDir root;
  write(root / "proc/self/cgroup", "0::/../../job\n");
  write(root / "sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(read_control_group(root.path()).cores, 3);
}

// As a job with one core of its node has it.
TEST(UsableCpus, AreThoseThatTheQuotaPaysFor) {
  const auto usable = [](const std::string& quota) {
    TempDir root;
    write(root / "proc/self/cgroup", "0::/pod/job\n");
    write(root / "sys/fs/cgroup/pod/cpu.max", quota);
    return usable_cpus(root.path());
  };
  EXPECT_EQ(usable("100000 100000\n"), 1);
  EXPECT_EQ(usable("20000 100000\n"), 1) << "a fifth of one is still one";
  EXPECT_EQ(usable("190000 100000\n"), 1) << "two would be throttled";
  EXPECT_EQ(usable("max 100000\n"), affinity_cpus());
  EXPECT_EQ(usable("100000000 100000\n"), affinity_cpus());
}

TEST(UsableCpus, FollowTheAffinity) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(affinity_cpus(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace control_group_test
}  // namespace lockstep
