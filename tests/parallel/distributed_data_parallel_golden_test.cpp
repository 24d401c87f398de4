// SPDX-License-Identifier: Apache-2.0
// Repeats five steps of PyTorch's DistributedDataParallel from its weights and data (golden/make_ddp.py).
#include <ATen/core/ivalue.h>  // before any other torch header: Clang cannot compile 1.13 as C++20 otherwise

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/optim/adamw.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "support/run_ranks.h"
#include "tensor/golden.h"

namespace lockstep {
namespace distributed_data_parallel_golden_test {

using Json = nlohmann::json;
using test::to_tensor;

struct Net : torch::nn::Module {
  Net() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = at::max_pool2d(norm(conv(images)).relu(), 2);
    return fc2(fc1(features.flatten(1)).relu());
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 6, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{6};
  torch::nn::Linear fc1{6 * 4 * 4, 24};
  torch::nn::Linear fc2{24, 10};
};

NamedTensors floating_state(Net& net) {
  NamedTensors items = named_parameters_of(net);
  for (const auto& item : named_buffers_of(net)) {
    if (item.second.is_floating_point()) items.push_back(item);
  }
  return items;
}

void load(Net& net, const Json& dumped) {
  StateDict state;
  for (const auto& [name, value] : dumped.items()) state.emplace(name, to_tensor(value));
  load_tensors(floating_state(net), state);
}

RANKS_TEST(DistributedDataParallelGolden, FiveStepsOnTwoRanksEqualPyTorchs, 2) {
  const Json golden = test::read_golden("parallel/golden/ddp.json");
  Net net;
  if (job.is_main()) load(net, golden.at("start"));
  // Buckets smaller than the largest parameter, so that several of them are reduced and rebuilt.
  DistributedDataParallel model(std::move(net), job, {.first_bucket_bytes = 256, .bucket_bytes = 2048});
  AdamW optimizer(model, {.lr = 6e-4});
  const auto rank = static_cast<std::size_t>(job.rank());
  for (std::size_t step = 0; step < golden.at("batches").size(); ++step) {
    const Json& batch = golden.at("batches")[step][rank];
    const at::Tensor labels = at::tensor(batch.at("labels").get<std::vector<std::int64_t>>());
    const at::Tensor loss = at::cross_entropy_loss(model(to_tensor(batch.at("images"))), labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    const double expected = golden.at("losses")[rank][step];
    EXPECT_NEAR(loss.item<double>(), expected, 1e-5 * expected) << "step " << step;
  }
  for (const auto& [name, value] : floating_state(model.module())) {
    if (name.find("running") != std::string::npos && !job.is_main()) continue;  // each rank ends with its own batch
    const at::Tensor expected = to_tensor(golden.at("end").at(name));
    const double error = value.detach().sub(expected).norm().item<double>() / expected.norm().item<double>();
    EXPECT_LT(error, 1e-5) << name;
    EXPECT_LT(test::relative_difference(value, expected, 1e-2), 1e-4) << name;
  }
}

}  // namespace distributed_data_parallel_golden_test
}  // namespace lockstep
