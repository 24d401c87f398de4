// SPDX-License-Identifier: Apache-2.0
#include "nn/replace.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "lockstep/nn/activation.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/linear_relu.h"
#include "lockstep/nn/optimize.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace replace_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MATCHER_P2(IsChain, name, what, "") { return arg.name == name && arg.what == what; }

torch::nn::Linear linear(std::int64_t in, std::int64_t out) { return torch::nn::Linear(in, out); }

/// A head as the captcha recogniser's, with layers before it that stand alone.
torch::nn::Sequential head(double dropout) {
  seed_all(5);
  return torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})), torch::nn::Dropout(dropout),
                               linear(64, 256), torch::nn::Dropout(dropout), torch::nn::ReLU(), linear(256, 128),
                               torch::nn::ReLU(), linear(128, 36));
}

TEST(Replace, TakesLinearReLULayerNormAndDropoutOfASequential) {
  torch::nn::Sequential net = head(0.5);
  const Optimized done = optimize(*net);
  EXPECT_THAT(done.fused,
              ElementsAre(IsChain("0", "LayerNorm"), IsChain("1", "Dropout"), IsChain("2", "Linear + Dropout + ReLU"),
                          IsChain("5", "Linear + ReLU"), IsChain("7", "Linear")));
  EXPECT_THAT(done.left, IsEmpty());
  EXPECT_NE(net[0]->as<LayerNorm>(), nullptr);
  EXPECT_EQ(net[1]->as<Dropout>()->p(), 0.5);
  EXPECT_EQ(net[2]->as<LinearReLU>()->then().dropout, 0.5);
  EXPECT_EQ(net[5]->as<LinearReLU>()->then().dropout, 0);
}

TEST(Replace, KeepsNamesParametersAndWhatTheNetworkComputes) {
  torch::nn::Sequential plain = head(0);
  torch::nn::Sequential net = head(0);
  const auto before = net->named_parameters();
  (void)optimize(*net);
  const auto after = net->named_parameters();
  EXPECT_EQ(before.keys(), after.keys());
  for (const auto& parameter : before)
    EXPECT_TRUE(parameter.value().is_same(after[parameter.key()])) << parameter.key();
  const at::Tensor x = at::randn({64, 64});
  const at::Tensor found = net->forward(x);
  const at::Tensor expected = plain->forward(x);
  EXPECT_LT(difference(found, expected), 1e-6);
  found.square().sum().backward();
  expected.square().sum().backward();
  for (const auto& parameter : plain->named_parameters()) {
    EXPECT_LT(difference(after[parameter.key()].grad(), parameter.value().grad()), 1e-5) << parameter.key();
  }
}

TEST(Replace, TakesDropoutAfterReLUAlongForItIsTheSame) {
  torch::nn::Sequential net(linear(8, 8), torch::nn::ReLU(), torch::nn::Dropout(0.25), torch::nn::Dropout(0.5));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "Linear + ReLU + Dropout"), IsChain("3", "Dropout")));
  EXPECT_EQ(net[0]->as<LinearReLU>()->then().dropout, 0.25);
}

TEST(Replace, TakesALinearAndAReLUAloneUnlessThatIsInPlace) {
  torch::nn::Sequential net(linear(8, 8), torch::nn::Tanh(), torch::nn::ReLU(), torch::nn::Tanh(),
                            torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "Linear"), IsChain("2", "ReLU")));
  EXPECT_NE(net[0]->as<Linear>(), nullptr);
  EXPECT_NE(net[2]->as<ReLU>(), nullptr);
  EXPECT_NE(net[4]->as<torch::nn::ReLU>(), nullptr);
}

TEST(Replace, DoesNotTakeTheReLUOfABatchNormTwice) {
  torch::nn::Sequential net(BatchNorm2d(8), torch::nn::Dropout(0.5), torch::nn::ReLU(), torch::nn::Dropout(0.5));
  EXPECT_THAT(optimize(*net).fused, ElementsAre(IsChain("0", "BatchNorm2d + Dropout + ReLU"), IsChain("3", "Dropout")));
}

/// A class of a program's own: its forward is not Linear's.
struct DoubledImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) { return 2 * torch::nn::LinearImpl::forward(x); }
};
TORCH_MODULE(Doubled);

TEST(Replace, LeavesAClassThatIsDerivedFromALayer) {
  torch::nn::Sequential net(Doubled(8, 8), torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  const at::Tensor x = at::randn({4, 8});
  const at::Tensor before = net->forward(x);
  EXPECT_THAT(optimize(*net).fused, IsEmpty());
  EXPECT_TRUE(at::equal(net->forward(x), before));
}

TEST(Replace, KeepsTheModeAndFollowsTheNetworksAfterwards) {
  torch::nn::Sequential net = head(0.5);
  net->eval();
  (void)optimize(*net);
  for (const auto& layer : net->children()) EXPECT_FALSE(layer->is_training());
  const at::Tensor x = at::randn({64, 64});
  EXPECT_TRUE(at::equal(net->forward(x), net->forward(x)));
  net->train();
  EXPECT_FALSE(at::equal(net->forward(x), net->forward(x)));
}

struct OutsideImpl : torch::nn::Module {
  OutsideImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
  }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

TEST(Replace, SaysWhatStandsOutsideOfASequential) {
  OutsideImpl net;
  EXPECT_THAT(optimize(net).left, ElementsAre(IsChain("norm", "LayerNorm: it is not inside a torch::nn::Sequential"),
                                              IsChain("dropout", "Dropout: it is not inside a torch::nn::Sequential")));
}

}  // namespace replace_test
}  // namespace lockstep::nn
