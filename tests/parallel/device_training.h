// SPDX-License-Identifier: Apache-2.0
// Three training steps on ranks that each get part of the samples, and the same steps in one process on the CPU: for
// real and fake GPUs.
#pragma once

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/job.h"
#include "lockstep/optim/adamw.h"
#include "lockstep/optim/clip.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/tensor/random.h"

namespace lockstep::device_training {

struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { NetImpl::reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(8, 32));
    second = register_module("second", torch::nn::Linear(32, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
};
TORCH_MODULE(Net);

constexpr int kSteps = 3;

/// Divisible by 2, 3, 4 or 8 ranks.
inline at::Tensor samples() {
  seed_all(7);
  return at::randn({24, 8});
}

inline at::Tensor samples_of(const Job& job) {
  return samples().chunk(job.world_size())[static_cast<std::size_t>(job.rank())].to(job.device());
}

inline Net make_net(const c10::Device& device) {
  seed_all(3);
  Net net;
  net->to(device);
  return net;
}

template <class Net>
std::vector<at::Tensor> weights_of(Net& net) {
  std::vector<at::Tensor> weights;
  for (const at::Tensor& parameter : net.parameters()) weights.push_back(parameter.detach().cpu());
  return weights;
}

/// `max_norm`: the norm to clip gradients to; 0: no clipping.
template <class Model>
void train(Model& model, Optimizer& optimizer, const at::Tensor& rows, double max_norm = 0) {
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    model(rows).square().mean().backward();
    optimizer.step(max_norm == 0 ? 1.0 : clip_factor(optimizer.grad_norm(), max_norm));
  }
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(DistributedDataParallel<NetImpl>&, Job&)>;

inline std::unique_ptr<Optimizer> plain_adamw(DistributedDataParallel<NetImpl>& model, Job& /*job*/) {
  return std::make_unique<AdamW>(model, AdamWOptions{.lr = 1e-2});
}

inline std::unique_ptr<Optimizer> sharded_adamw(DistributedDataParallel<NetImpl>& model, Job& job) {
  return std::make_unique<ZeroRedundancyOptimizer>(model, job, AdamWOptions{.lr = 1e-2},
                                                   ZeroOptions{.shard_gradients = true});
}

/// The weights after this rank's steps, on the CPU. There are several buckets.
inline std::vector<at::Tensor> trained_by(Job& job, const MakeOptimizer& make_optimizer, double max_norm = 0) {
  Net net = make_net(job.device());
  DistributedDataParallel model{net, job, DdpOptions{.first_bucket_bytes = 64, .bucket_bytes = 600}};
  const auto optimizer = make_optimizer(model, job);
  train(model, *optimizer, samples_of(job), max_norm);
  return weights_of(*net);
}

/// The same steps on the CPU, without a wrapper.
inline std::vector<at::Tensor> trained_on_all_samples(double max_norm = 0) {
  Net net = make_net(c10::Device(c10::kCPU));
  AdamW optimizer(*net, {.lr = 1e-2});
  train(net, optimizer, samples(), max_norm);
  return weights_of(*net);
}

inline void expect_close(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-4, 1e-5)) << i;
}

inline void expect_same_on_all_ranks(Job& job, const std::vector<at::Tensor>& weights) {
  for (const at::Tensor& weight : weights) {
    std::vector<at::Tensor> all;
    job.group().all_gather(weight, all).wait();
    for (const at::Tensor& other : all) EXPECT_TRUE(other.equal(weight)) << "the ranks differ";
  }
}

inline void expect_to_train_as_one(Job& job, const MakeOptimizer& make_optimizer, double max_norm = 0) {
  const std::vector<at::Tensor> found = trained_by(job, make_optimizer, max_norm);
  expect_same_on_all_ranks(job, found);
  expect_close(found, trained_on_all_samples(max_norm));
}

}  // namespace lockstep::device_training
