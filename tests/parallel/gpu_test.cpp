// SPDX-License-Identifier: Apache-2.0
// Training steps on a GPU against the same steps on the CPU: one rank, and several that share the GPU.
#include "parallel/device_training.h"

#include <gmock/gmock.h>

#include "support/ranks_on_one_gpu.h"

namespace lockstep {
namespace {

using namespace device_training;  // NOLINT(google-build-using-namespace): this file is about it
using testing::current_test;
using testing::ranks_on_one_gpu;
using testing::RanksOnOneGpu;
using testing::RanksOptions;
using testing::run_ranks;

Job job_on(const char* device) {
  const std::vector<const char*> words = {"test", "--device", device};
  return init(static_cast<int>(words.size()), words.data());
}

TEST(Gpu, AStepAloneIsTheCpusUpToRounding) {
  LOCKSTEP_NEEDS_GPU();
  Job job = job_on("cuda");
  expect_close(trained_by(job, plain_adamw), trained_on_all_samples());
}

/// Each rank trains on part of the samples.
void expect_to_train_as_one_process(const MakeOptimizer& make_optimizer, const RanksOptions& ranks) {
  run_ranks(
      current_test(), [&](Job& job) { expect_to_train_as_one(job, make_optimizer); }, ranks);
}

RanksOptions two_ranks_through_host_memory() {
  return {.world = 2, .env = {{"LOCKSTEP_DEVICE", "cuda"}, {"LOCKSTEP_SHARE_GPUS", "1"}}};
}

TEST(Gpu, TwoRanksThatShareItTrainAsOneWithAllSamples) {
  LOCKSTEP_NEEDS_GPU();
  expect_to_train_as_one_process(plain_adamw, two_ranks_through_host_memory());
}

TEST(Gpu, TwoRanksThatShareItTrainAsOneWithShardedStateAndGradients) {
  LOCKSTEP_NEEDS_GPU();
  expect_to_train_as_one_process(sharded_adamw, two_ranks_through_host_memory());
}

TEST_P(RanksOnOneGpu, TwoTrainAsOneWithAllSamples) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  expect_to_train_as_one_process(plain_adamw, ranks_on_one_gpu(2, GetParam()));
}

TEST_P(RanksOnOneGpu, ThreeTrainAsOneWithShardedStateAndGradients) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  expect_to_train_as_one_process(sharded_adamw, ranks_on_one_gpu(3, GetParam()));
}

TEST_P(RanksOnOneGpu, FourTrainAsOneWithAllSamples) {
  LOCKSTEP_NEEDS_RANKS_ON_ONE_GPU();
  expect_to_train_as_one_process(plain_adamw, ranks_on_one_gpu(4, GetParam()));
}

LOCKSTEP_RANKS_ON_ONE_GPU();

TEST(Gpu, TheClippingNormIsTheCpusUpToRounding) {
  LOCKSTEP_NEEDS_GPU();
  std::vector<double> norms;
  for (const char* device : {"cpu", "cuda"}) {
    Net net = make_net(c10::Device(device));
    net->forward(samples().to(c10::Device(device))).square().mean().backward();
    norms.push_back(grad_norm(named_parameters_of(*net)));
  }
  EXPECT_NEAR(norms[1], norms[0], 1e-5 * norms[0]);
}

}  // namespace
}  // namespace lockstep
