// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/optimize.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/norm_act.h"
#include "lockstep/tensor/named_tensors.h"
#include "lockstep/tensor/random.h"

namespace lockstep::nn {
namespace optimize_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MATCHER_P2(IsChain, name, what, "") { return arg.name == name && arg.what == what; }

torch::nn::Conv2d conv(std::int64_t in, std::int64_t out) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

/// A Sequential within another needs a forward() without templates.
struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    inner = register_module(
        "inner", torch::nn::Sequential(conv(8, 16), torch::nn::BatchNorm2d(16), torch::nn::ReLU(), conv(16, 16)));
  }
  at::Tensor forward(const at::Tensor& x) { return inner->forward(x); }

  torch::nn::Sequential inner{nullptr};
};
TORCH_MODULE(Block);

/// Convolutions with every chain that is fused, around each other.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    seed_all(4);
    layers = register_module(
        "layers", torch::nn::Sequential(conv(3, 8), BatchNorm2d(8), torch::nn::ReLU(), torch::nn::MaxPool2d(2), Block(),
                                        BatchNorm2d(16), torch::nn::ReLU()));
    to(at::kFloat);
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }

  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Net);

at::Tensor images() {
  seed_all(8);
  return at::randn({4, 3, 8, 8}).to(at::TensorOptions(), false, false, at::MemoryFormat::ChannelsLast);
}

TEST(Optimize, FusesTheChainsOfEverySequentialAndNamesThem) {
  Net net;
  const Optimized done = optimize(*net);
  EXPECT_THAT(done.fused,
              ElementsAre(IsChain("layers.0", "Conv2d"), IsChain("layers.1", "BatchNorm2d + ReLU + MaxPool2d"),
                          IsChain("layers.5", "BatchNorm2d + ReLU"), IsChain("layers.4.inner.0", "Conv2d"),
                          IsChain("layers.4.inner.1", "BatchNorm2d + ReLU"), IsChain("layers.4.inner.3", "Conv2d")));
  EXPECT_THAT(done.left, IsEmpty());
}

TEST(Optimize, KeepsNamesParametersAndWhatTheNetworkComputes) {
  Net plain;
  Net net;
  const NamedTensors before = named_parameters_of(net);
  const auto buffers_before = net->named_buffers().keys();
  (void)optimize(*net);
  const NamedTensors after = named_parameters_of(net);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].first, after[i].first);
    EXPECT_TRUE(before[i].second.is_same(after[i].second)) << before[i].first;
  }
  EXPECT_EQ(buffers_before, net->named_buffers().keys());
  const at::Tensor expected = plain->forward(images());
  const at::Tensor found = net->forward(images());
  EXPECT_TRUE(at::allclose(found, expected, 1e-4, 1e-5));
  expected.sum().backward();
  found.sum().backward();
  EXPECT_TRUE(at::allclose(net->layers[0]->as<Conv2d>()->weight.grad(),
                           plain->layers[0]->as<torch::nn::Conv2d>()->weight.grad(), 1e-3, 1e-4));
  for (const auto& buffer : plain->named_buffers()) {
    EXPECT_TRUE(at::allclose(net->named_buffers()[buffer.key()], buffer.value(), 1e-5, 1e-6)) << buffer.key();
  }
}

TEST(Optimize, TakesDropoutBetweenNormAndReLUAlong) {
  torch::nn::Sequential net(BatchNorm2d(8), torch::nn::Dropout(0.25), torch::nn::ReLU(), torch::nn::MaxPool2d(2));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "BatchNorm2d + Dropout + ReLU + MaxPool2d")));
  const auto* fused = net[0]->as<BatchNormReLU2d>();
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(fused->then().dropout, 0.25);
  EXPECT_TRUE(fused->then().pool);
}

TEST(Optimize, ReplacesConvolutionsOfOneGroup) {
  torch::nn::Sequential net(conv(1, 8), torch::nn::Tanh(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).groups(4)), conv(8, 6));
  const at::Tensor weight = net[0]->as<torch::nn::Conv2d>()->weight;
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "Conv2d"), IsChain("3", "Conv2d")));
  EXPECT_TRUE(net->named_parameters()["0.weight"].is_same(weight));
}

TEST(Optimize, LeavesAPoolingThatIsNotTwoByTwoToLibtorch) {
  torch::nn::Sequential net(BatchNorm2d(8), torch::nn::ReLU(),
                            torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2)));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "BatchNorm2d + ReLU")));
  EXPECT_EQ(net->forward(at::randn({2, 8, 9, 9})).size(2), 4);
}

TEST(Optimize, SaysWhatItLeftAndWhy) {
  torch::nn::Sequential net(BatchNorm2d(6), torch::nn::ReLU(), BatchNorm2d(8));
  const Optimized done = optimize(*net);
  EXPECT_THAT(done.fused, ElementsAre(IsChain("1", "ReLU")));
  EXPECT_THAT(done.left, ElementsAre(IsChain("0", "BatchNorm2d + ReLU: 6 channels are no multiple of 8"),
                                     IsChain("2", "BatchNorm2d: no ReLU follows")));
}

TEST(Optimize, TwiceIsOnce) {
  Net net;
  (void)optimize(*net);
  EXPECT_THAT(optimize(*net).fused, IsEmpty());
}

}  // namespace optimize_test
}  // namespace lockstep::nn
