// SPDX-License-Identifier: Apache-2.0
// The resources that the machine allows a process: limits, control groups, OpenBLAS kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <new>
#include <system_error>
#include <vector>

#include "lockstep/base/blas.h"
#include "lockstep/base/control_group.h"
#include "lockstep/base/gpu_devices.h"
#include "lockstep/base/resources.h"
#include "support/scarce.h"
#include "support/temp_dir.h"

namespace lockstep {
namespace resources_test {

namespace fs = std::filesystem;
using test::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuDevices, AreThoseThatTheKernelNamesByANumber) {
  const TempDir folder;
  for (const char* name : {"nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia", "null"}) {
    std::ofstream(folder.path() / name) << "";
  }
  EXPECT_EQ(count_gpu_devices(folder.path()), 2);
  EXPECT_EQ(count_gpu_devices(folder.path() / "nowhere"), 0);
}

TEST(GpuDevices, AreVisibleAsCudaReadsItsList) {
  EXPECT_EQ(count_visible_gpus(4, std::nullopt), 4);
  EXPECT_EQ(count_visible_gpus(4, ""), 0);
  EXPECT_EQ(count_visible_gpus(4, "3,1"), 2);
  EXPECT_EQ(count_visible_gpus(4, "3,-1,1"), 1);
  EXPECT_EQ(count_visible_gpus(1, "0,1,2"), 1);
  EXPECT_EQ(count_visible_gpus(1, "MIG-a,MIG-b,MIG-c"), 3) << "slices of one GPU";
  EXPECT_EQ(count_visible_gpus(0, "MIG-a"), 0);
  EXPECT_EQ(visible_gpu_of("4,7", 1), "7");
  EXPECT_EQ(visible_gpu_of("4,7", 2), "4");
  EXPECT_EQ(visible_gpu_of("", 2), "");
}

TEST(ThreadName, IsThePurposeInWholeWords) {
  EXPECT_EQ(thread_name("for communication"), "communication");
  EXPECT_EQ(thread_name("for loader worker 3 of 4"), "loader worker 3");
  EXPECT_EQ(thread_name("for loader worker 12 of 40"), "loader worker");
  EXPECT_EQ(thread_name("that watches over the other ranks"), "watches over");
}

TEST(WordsOfLimit, OfThreadsNameTheLimitsThatAreKnown) {
  const ResourceLimits limits{.processes = 512, .group_tasks = 4915};
  const LimitWords words = words_of_limit(EAGAIN, limits);
  EXPECT_EQ(words.limit,
            "limits on processes and threads: 512 for this user (ulimit -u), 4,915 for this control group (pids.max)");
  EXPECT_THAT(words.remedy, HasSubstr("ulimit -u"));
  EXPECT_THAT(words_of_limit(EAGAIN, {}).limit, HasSubstr("kernel.threads-max"));
}

TEST(WordsOfLimit, OfAThreadWhoseStackFindsNoRoomNameTheMemory) {
  const ResourceLimits limits{
      .processes = 512, .address_space = 8'000'000'000, .mapped = 7'995'000'000, .stack = 8U << 20U};
  const LimitWords words = words_of_limit(EAGAIN, limits);
  EXPECT_EQ(words.limit, "8.0 GB of address space is allowed (ulimit -v), 8.0 GB of it in use");
  EXPECT_THAT(words.remedy, HasSubstr("ulimit -v"));
}

TEST(WordsOfLimit, OfMemoryAndFilesAreTheirOwn) {
  const ResourceLimits limits{.processes = 512, .address_space = 1'000'000'000, .mapped = 1'000'000, .files = 24};
  EXPECT_THAT(words_of_limit(ENOMEM, limits).limit, HasSubstr("1.0 GB of address space"));
  EXPECT_THAT(words_of_limit(EMFILE, limits).limit, HasSubstr("24 open files are allowed here (ulimit -Hn)"));
  EXPECT_THAT(words_of_limit(ENFILE, limits).limit, HasSubstr("fs.file-max"));
}

TEST(ThrowCannot, KnowsAShortageFromAFault) {
  EXPECT_THROW(throw_cannot("fork", EAGAIN), ResourceError);
  EXPECT_THROW(throw_cannot("fork", ENOMEM), ResourceError);
  EXPECT_THROW(throw_cannot("fork", EMFILE), ResourceError);
  EXPECT_THROW(throw_cannot("fork", ENOENT), IoError);
}

TEST(StartThread, RunsItsBody) {
  int ran = 0;
  start_thread("for a test", [&] { ran = 1; }).join();
  EXPECT_EQ(ran, 1);
}

// Runs in a separate process, with address space for only a few stacks.
TEST(StartThread, SaysWhatRanOut) {
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        std::vector<std::thread> threads;
        ::_exit(guarded_main([&]() -> int {
          while (threads.size() < 1000) threads.push_back(start_thread("for a test", [] { ::pause(); }));
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69),
      "cannot start a thread for a test \\(Resource temporarily unavailable\\): .* of address space is allowed "
      "\\(ulimit -v\\)");
}

TEST(RequireThreads, TriesSoManyAtATime) {
  EXPECT_NO_THROW(require_threads(3, "for a library"));
  EXPECT_NO_THROW(require_threads(0, "for a library"));
  if (!test::keeps_address_space()) GTEST_SKIP() << "no address-space limit is enforced here";
  EXPECT_EXIT(
      {
        test::leave_address_space(64U << 20U);
        ::_exit(guarded_main([] {
          require_threads(1000, "for a library");
          return 0;
        }));
      },
      ::testing::ExitedWithCode(69), "cannot start a thread for a library .*ulimit -v");
}

TEST(GuardedMain, SaysWhichMemoryRanOut) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(guarded_main([]() -> int { throw std::bad_alloc(); }), 69);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), AllOf(HasSubstr("out of memory"), HasSubstr("ulimit -v")));
}

TEST(GuardedMain, TakesAThreadThatALibraryCouldNotStartForAShortage) {
  const auto thrown = [](int error, const std::error_category& category) {
    return guarded_main([&]() -> int { throw std::system_error(error, category); });
  };
  EXPECT_EQ(thrown(EAGAIN, std::generic_category()), 69);
  EXPECT_EQ(thrown(EMFILE, std::system_category()), 69);
  EXPECT_EQ(thrown(EAGAIN, std::system_category()), 71) << "of a socket that would block";
  EXPECT_EQ(thrown(ECONNREFUSED, std::generic_category()), 71);
}

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
  write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");  // in a container, its own cgroup is the root
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

// A job with one core of its node.
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

}  // namespace resources_test
}  // namespace lockstep

namespace lockstep::blas {
namespace resources_test {

constexpr CpuFeatures kOld{};
constexpr CpuFeatures kAvx2{.avx2 = true};
constexpr CpuFeatures kAvx512{.avx2 = true, .avx512 = true};
constexpr CpuFeatures kBf16{.avx2 = true, .avx512 = true, .avx512_bf16 = true};

TEST(Blas, AProcessorThatOpenBlasTakesForAnOlderOneGetsTheWidestKernelsItCanRun) {
  EXPECT_EQ(better_core("Haswell", kBf16), "Cooperlake");
  EXPECT_EQ(better_core("Prescott", kBf16), "Cooperlake");
  EXPECT_EQ(better_core("Haswell", kAvx512), "SkylakeX");
  EXPECT_EQ(better_core("Zen", kAvx512), "SkylakeX");
  EXPECT_EQ(better_core("Prescott", kAvx2), "Haswell");
  EXPECT_EQ(better_core("unknown", kAvx2), "Haswell");
}

TEST(Blas, WhatIsWideEnoughStays) {
  for (const char* core : {"SkylakeX", "Cooperlake", "SapphireRapids"}) EXPECT_EQ(better_core(core, kBf16), "") << core;
  EXPECT_EQ(better_core("Haswell", kAvx2), "");
  EXPECT_EQ(better_core("Zen", kAvx2), "");
  EXPECT_EQ(better_core("Prescott", kOld), "");
}

TEST(Blas, TheTextNamesVersionKernelsAndWhyTheyWereChosen) {
  Library library{.version = "OpenBLAS 0.3.21", .core = "SapphireRapids", .detected = "", .by_user = false};
  EXPECT_EQ(library.text(), "OpenBLAS 0.3.21, SapphireRapids kernels");
  library.detected = "Haswell";
  EXPECT_EQ(library.text(), "OpenBLAS 0.3.21, SapphireRapids kernels (it detected this processor as a Haswell)");
  library.by_user = true;
  EXPECT_EQ(library.text(), "OpenBLAS 0.3.21, SapphireRapids kernels (OPENBLAS_CORETYPE was set)");
}

TEST(Blas, WiderFeaturesIncludeTheNarrower) {
  const CpuFeatures features = cpu_features();
  EXPECT_LE(features.avx512, features.avx2);
  EXPECT_LE(features.avx512_bf16, features.avx512);
}

}  // namespace resources_test
}  // namespace lockstep::blas
