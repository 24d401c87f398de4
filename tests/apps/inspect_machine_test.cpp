// SPDX-License-Identifier: Apache-2.0
#include "worker/inspect_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::worker {
namespace inspect_machine_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(InspectGpu, ShowsEachGpuWithUnitsAndTheRanksOnIt) {
  GpuReport report;
  report.gpus.push_back({.index = 0,
                         .name = "NVIDIA H100",
                         .percent = 97,
                         .used_bytes = std::uint64_t{20} << 30,
                         .total_bytes = std::uint64_t{80} << 30,
                         .celsius = 64,
                         .watts = 412.5,
                         .megahertz = 1980,
                         .processes = {{.pid = 4101, .bytes = std::uint64_t{3} << 30, .rank = 2}, {.pid = 77}}});
  report.gpus.push_back({.index = 1, .name = "NVIDIA H100"});
  const std::string text = gpu_text(report);
  EXPECT_THAT(
      text,
      ContainsRegex("0  NVIDIA H100 +97 % +21.5 GB of 85.9 GB +64 C +412 W +1980 MHz +rank 2 \\(pid 4101\\) 3.*, 77"));
  EXPECT_THAT(text, ContainsRegex("1  NVIDIA H100 +- +- +- +- +- +-"));
}

TEST(InspectGpu, SaysInALineWhyThereIsNone) {
  EXPECT_EQ(gpu_text({.problem = "no NVIDIA driver was found"}), "no GPU: no NVIDIA driver was found\n");
}

TEST(InspectEnv, PicksTheVariablesThatARunObeysByName) {
  const auto variables =
      relevant_variables({"PATH=/bin", "RANK=1", "NCCL_DEBUG=INFO", "HOME=/", "CUDA_HOME=", "noise"});
  EXPECT_THAT(variables, ::testing::ElementsAre(Pair("CUDA_HOME", ""), Pair("NCCL_DEBUG", "INFO"), Pair("RANK", "1")));
}

TEST(InspectEnv, KnowsWhatTheUsualOnesDo) {
  EXPECT_THAT(meaning_of("CUDA_LAUNCH_BLOCKING"), HasSubstr("waits for every kernel"));
  EXPECT_EQ(meaning_of("NCCL_ALGO"), "");
}

}  // namespace inspect_machine_test
}  // namespace lockstep::worker
