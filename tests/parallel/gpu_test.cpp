// SPDX-License-Identifier: Apache-2.0
// Training steps on a GPU against the same on the CPU: alone, and two ranks that share it.
#include <ATen/core/ivalue.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/optim/adamw.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/random.h"
#include "support/gpu.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace {

using testing::current_test;
using testing::run_ranks;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }
  torch::nn::Linear first{8, 32};
  torch::nn::Linear second{32, 4};
};
TORCH_MODULE(Net);

at::Tensor samples() {
  seed_all(7);
  return at::randn({16, 8});
}

Net make_net(const c10::Device& device) {
  seed_all(3);
  Net net;
  net->to(device);
  return net;
}

/// Three steps on the rows that `rank` of `world` has; the weights then, on the CPU.
template <class MakeOptimizer>
std::vector<at::Tensor> train(Job& job, const MakeOptimizer& make_optimizer) {
  Net net = make_net(job.device());
  DistributedDataParallel model{net, job};
  const auto optimizer = make_optimizer(model, job);
  const at::Tensor rows = samples().chunk(job.world_size())[static_cast<std::size_t>(job.rank())].to(job.device());
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    model(rows).square().mean().backward();
    optimizer->step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) weights.push_back(parameter.detach().cpu());
  return weights;
}

std::unique_ptr<Optimizer> plain_adamw(DistributedDataParallel<NetImpl>& model, Job&) {
  return std::make_unique<AdamW>(model, AdamWOptions{.lr = 1e-2});
}

std::unique_ptr<Optimizer> sharded_adamw(DistributedDataParallel<NetImpl>& model, Job& job) {
  return std::make_unique<ZeroRedundancyOptimizer>(model, job, AdamWOptions{.lr = 1e-2},
                                                   ZeroOptions{.shard_gradients = true});
}

Job job_on(const char* device) {
  const std::vector<const char*> words = {"test", "--device", device};
  return init(static_cast<int>(words.size()), words.data());
}

void expect_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-4, 1e-5)) << i;
}

/// The same three steps on the CPU, without a wrapper.
std::vector<at::Tensor> trained_on_all_samples() {
  Net net = make_net(c10::Device(c10::kCPU));
  AdamW optimizer(*net, {.lr = 1e-2});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    net->forward(samples()).square().mean().backward();
    optimizer.step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net->parameters()) weights.push_back(parameter.detach());
  return weights;
}

TEST(Gpu, AStepAloneIsTheCpusUpToRounding) {
  LOCKSTEP_NEEDS_GPU();
  Job job = job_on("cuda");
  expect_close(train(job, plain_adamw), trained_on_all_samples());
}

/// Two ranks on one GPU, each with half of the samples. `sharing`: 1 for host memory, nccl.
template <class MakeOptimizer>
void expect_two_ranks_to_train_as_one(const MakeOptimizer& make_optimizer, const std::string& sharing) {
  run_ranks(current_test(),
            [&](Job& job) {
              const auto found = train(job, make_optimizer);
              for (const at::Tensor& weight : found) {
                std::vector<at::Tensor> all;
                job.group().all_gather(weight, all).wait();
                EXPECT_TRUE(all[0].equal(all[1])) << "the ranks differ";
              }
              expect_close(found, trained_on_all_samples());
            },
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
