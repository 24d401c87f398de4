// SPDX-License-Identifier: Apache-2.0
// Training steps on a GPU against the same on the CPU: alone, and two ranks that share it.
#include "parallel/device_training.h"

#include <gmock/gmock.h>

#include "support/gpu.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace {

using namespace device_training;  // NOLINT(google-build-using-namespace): this file is about it
using testing::current_test;
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

/// Two ranks on one GPU, each with half of the samples. `sharing`: 1 for host memory, nccl.
void expect_two_ranks_to_train_as_one(const MakeOptimizer& make_optimizer, const std::string& sharing) {
  run_ranks(current_test(), [&](Job& job) { expect_to_train_as_one(job, make_optimizer); },
            {.world = 2, .env = {{"LOCKSTEP_DEVICE", "cuda"}, {"LOCKSTEP_SHARE_GPUS", sharing}}});
}

TEST(Gpu, TwoRanksThatShareItTrainAsOneWithAllSamples) {
  LOCKSTEP_NEEDS_GPU();
  expect_two_ranks_to_train_as_one(plain_adamw, "1");
}

TEST(Gpu, TwoRanksThatShareItTrainAsOneWithShardedStateAndGradients) {
  LOCKSTEP_NEEDS_GPU();
  expect_two_ranks_to_train_as_one(sharded_adamw, "1");
}

TEST(Gpu, TwoNcclRanksOnItTrainAsOneWithAllSamples) {
  LOCKSTEP_NEEDS_NCCL();
  expect_two_ranks_to_train_as_one(plain_adamw, "nccl");
}

TEST(Gpu, TwoNcclRanksOnItTrainAsOneWithShardedStateAndGradients) {
  LOCKSTEP_NEEDS_NCCL();
  expect_two_ranks_to_train_as_one(sharded_adamw, "nccl");
}

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
