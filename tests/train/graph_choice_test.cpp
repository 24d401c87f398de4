// SPDX-License-Identifier: Apache-2.0
#include "train/settings/graph_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace graph_choice_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const c10::Device kGpu(c10::kCUDA, 0);

TrainConfig recordable() {
  TrainConfig config;
  config.replicas = 1;
  config.amp = "bf16";
  return config;
}

TEST(GraphChoice, OneProcessOnAGpuMayRecordItsSteps) { EXPECT_THAT(graph_obstacle(recordable(), kGpu, 1), IsEmpty()); }

TEST(GraphChoice, TheCpuHasNothingToRecord) {
  EXPECT_THAT(graph_obstacle(recordable(), c10::Device(c10::kCPU), 1), HasSubstr("CPU"));
}

TEST(GraphChoice, SeveralProcessesAndReplicasAreObstaclesThatAreNamed) {
  TrainConfig config = recordable();
  config.replicas = 4;
  EXPECT_THAT(graph_obstacle(config, kGpu, 2), HasSubstr("2 processes"));
  EXPECT_THAT(graph_obstacle(config, kGpu, 1), HasSubstr("4 replicas"));
}

TEST(GraphChoice, AccumulationAndAScaledLossAreObstacles) {
  TrainConfig config = recordable();
  config.accumulate_steps = 3;
  EXPECT_THAT(graph_obstacle(config, kGpu, 1), HasSubstr("accumulate_steps is 3"));
  config = recordable();
  config.amp = "fp16";
  EXPECT_THAT(graph_obstacle(config, kGpu, 1), HasSubstr("scaled"));
}

}  // namespace graph_choice_test
}  // namespace lockstep::train
