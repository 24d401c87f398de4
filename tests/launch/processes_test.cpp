// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include "lockstep/base/control_group.h"
#include "lockstep/base/error.h"

namespace lockstep {
namespace processes_test {

TEST(ProcessCount, ReadsNumbersAndRefusesTheRest) {
  EXPECT_EQ(resolve_process_count("3").count, 3);
  for (const char* text : {"0", "-1", "", "two", "2x", "1.5"}) {
    EXPECT_THROW((void)resolve_process_count(text), UsageError) << text;
  }
}

TEST(ProcessCount, CpuFollowsTheAffinity) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(resolve_process_count("cpu").count, usable_cpus());
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &before) && CPU_COUNT(&one) == 0) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(resolve_process_count("cpu").count, 1);
  EXPECT_THAT(resolve_process_count("cpu").reason, ::testing::StartsWith("1 usable CPU"));
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(ProcessCount, HiddenGpusDoNotCount) {
  for (const char* list : {"", "-1"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", list, 1);
    EXPECT_EQ(count_gpus(), 0);
    EXPECT_EQ(resolve_process_count("auto").count, count_cpus());
    EXPECT_THAT(resolve_process_count("auto").reason, ::testing::HasSubstr("no visible GPU"));
    EXPECT_THROW((void)resolve_process_count("gpu"), UsageError);
  }
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(ProcessCount, NoMoreGpusThanTheMachineHas) {
  const int all = count_gpus();
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19", 1);
  EXPECT_EQ(count_gpus(), all);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace processes_test
}  // namespace lockstep
