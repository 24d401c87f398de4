// SPDX-License-Identifier: Apache-2.0
#include "comm/wiring/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace device_choice_test {

using ::testing::HasSubstr;

DeviceRequest on_host(int local_rank, int local_world, int gpus) {
  return {.local_rank = local_rank, .local_world = local_world, .gpus = gpus, .has_cuda = true};
}

template <class Error>
std::string error_of(const DeviceRequest& request) {
  try {
    const c10::Device device = choose_device(request);
    return "no error but " + device.str();
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(DeviceChoice, AutoIsTheCpuWhereThereIsNoGpu) { EXPECT_EQ(choose_device({.local_world = 4}).str(), "cpu"); }

TEST(DeviceChoice, AutoAndCudaAreTheGpuOfTheLocalRank) {
  DeviceRequest request = on_host(2, 4, 4);
  EXPECT_EQ(choose_device(request).str(), "cuda:2");
  request.wanted = "cuda";
  EXPECT_EQ(choose_device(request).str(), "cuda:2");
}

TEST(DeviceChoice, CpuIsTheCpuHoweverManyGpusThereAre) {
  DeviceRequest request = on_host(0, 8, 4);
  request.wanted = "cpu";
  EXPECT_EQ(choose_device(request).str(), "cpu");
}

TEST(DeviceChoice, MoreRanksThanGpusIsAnErrorOnEveryRankNotOnlyOnTheLast) {
  const std::string error = error_of<ResourceError>(on_host(0, 4, 2));
  EXPECT_THAT(error, HasSubstr("4 ranks on this host need a GPU each, and this host has 2 GPUs"));
  EXPECT_THAT(error, HasSubstr("--nproc-per-node 2"));
}

TEST(DeviceChoice, TheErrorShowsWhatHidesGpus) {
  DeviceRequest request = on_host(0, 2, 1);
  request.visible = "3";
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("1 GPU (CUDA_VISIBLE_DEVICES=3)"));
}

TEST(DeviceChoice, RanksThatMayShareAreDealtToTheGpusInTurn) {
  DeviceRequest request = on_host(3, 4, 2);
  request.share = true;
  EXPECT_EQ(choose_device(request).str(), "cuda:1");
}

TEST(DeviceChoice, CudaWithoutAGpuSaysWhetherTheBuildLacksIt) {
  DeviceRequest request{.wanted = "cuda"};
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("this libtorch was built without CUDA"));
  request.has_cuda = true;
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("this host has 0 GPUs"));
}

TEST(DeviceChoice, AnIndexIsTakenAsItIsAndMustBeThere) {
  DeviceRequest request = on_host(0, 1, 2);
  request.wanted = "cuda:1";
  EXPECT_EQ(choose_device(request).str(), "cuda:1");
  request.wanted = "cuda:2";
  EXPECT_THAT(error_of<ResourceError>(request), HasSubstr("there is no device cuda:2: this host has 2 GPUs"));
}

TEST(DeviceChoice, AWordThatNamesNoDeviceIsAUsageError) {
  for (const char* word : {"gpu", "cuda:x", "xla", "meta", ""}) {
    DeviceRequest request = on_host(0, 1, 2);
    request.wanted = word;
    EXPECT_THAT(error_of<UsageError>(request), HasSubstr("use auto, cpu, cuda or cuda:N")) << word;
  }
}

}  // namespace device_choice_test
}  // namespace lockstep::comm
