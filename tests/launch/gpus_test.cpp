// SPDX-License-Identifier: Apache-2.0
// With a management library of make-believe GPUs (fake_nvml.c).
#include "lockstep/launch/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace lockstep {
namespace gpus_test {

using ::testing::HasSubstr;

class Gpus : public ::testing::Test {
 protected:
  ~Gpus() override {
    for (const char* name : {"FAKE_NVML_FAILS", "FAKE_NVML_EMPTY", "FAKE_NVML_PID"}) unsetenv(name);
  }
};

TEST_F(Gpus, AreReadWithUnits) {
  const GpuReport report = read_gpus(LOCKSTEP_FAKE_NVML);
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(report.driver, "580.1");
  ASSERT_EQ(report.gpus.size(), 2U);
  const GpuState& first = report.gpus.front();
  EXPECT_EQ(first.name, "Fake 0");
  EXPECT_EQ(first.percent, 90U);
  EXPECT_EQ(first.used_bytes, std::uint64_t{20} << 30);
  EXPECT_EQ(first.total_bytes, std::uint64_t{80} << 30);
  EXPECT_EQ(first.celsius, 64U);
  EXPECT_EQ(first.watts, 412.5);
  EXPECT_EQ(first.megahertz, 1980U);
}

TEST_F(Gpus, WhatAGpuDoesNotTellIsNone) {
  const GpuReport report = read_gpus(LOCKSTEP_FAKE_NVML);
  ASSERT_EQ(report.gpus.size(), 2U);
  EXPECT_FALSE(report.gpus[1].celsius);
  EXPECT_FALSE(report.gpus[1].watts);
  EXPECT_EQ(report.gpus[1].percent, 91U);
}

TEST_F(Gpus, AProcessIsShownWithTheRankOfItsEnvironment) {
  std::string program = "/bin/sleep";
  std::string seconds = "60";
  char* arguments[] = {program.data(), seconds.data(), nullptr};
  std::string rank = "RANK=3";
  std::string other = "LOCAL_RANK=1";
  char* environment[] = {other.data(), rank.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environment), 0);
  setenv("FAKE_NVML_PID", std::to_string(child).c_str(), 1);
  GpuReport report = read_gpus(LOCKSTEP_FAKE_NVML);
  // The environment can be read only once the kernel has set the new program up.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!report.gpus.front().processes.front().rank && std::chrono::steady_clock::now() < end) {
    report = read_gpus(LOCKSTEP_FAKE_NVML);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(report.gpus.front().processes.size(), 1U);
  const GpuProcess& process = report.gpus.front().processes.front();
  EXPECT_EQ(process.pid, child);
  EXPECT_EQ(process.bytes, std::uint64_t{3} << 30);
  EXPECT_EQ(process.rank, 3);
}

TEST_F(Gpus, AProcessThatIsGoneHasNoRank) {
  setenv("FAKE_NVML_PID", "999999999", 1);
  EXPECT_FALSE(read_gpus(LOCKSTEP_FAKE_NVML).gpus.front().processes.front().rank);
}

TEST_F(Gpus, WithoutALibraryThereIsNoneAndTheReasonIsSaid) {
  const GpuReport report = read_gpus("libthere-is-no-such-driver.so.1");
  EXPECT_TRUE(report.gpus.empty());
  EXPECT_THAT(report.problem, HasSubstr("no NVIDIA driver was found"));
}

TEST_F(Gpus, ADriverThatDoesNotAnswerIsSaidInItsOwnWords) {
  setenv("FAKE_NVML_FAILS", "1", 1);
  EXPECT_THAT(read_gpus(LOCKSTEP_FAKE_NVML).problem, HasSubstr("Driver Not Loaded"));
}

TEST_F(Gpus, ADriverWithoutGpusIsAProblemToo) {
  setenv("FAKE_NVML_EMPTY", "1", 1);
  EXPECT_THAT(read_gpus(LOCKSTEP_FAKE_NVML).problem, HasSubstr("knows no GPU"));
}

}  // namespace gpus_test
}  // namespace lockstep
