// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/operator_values.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace lockstep::test {
namespace operator_values_test {

using observe::OperatorValue;
using observe::OperatorValues;

/// Layers from libtorch and from Lockstep.
struct Net : torch::nn::Module {
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3)));
    first = register_module("first", torch::nn::Linear(4 * 36, 8));
    second = register_module("second", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = torch::relu(conv(images)).flatten(1);
    return second(torch::relu(first(torch::dropout(features, 0.5, true))));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear first{nullptr}, second{nullptr};
};

std::vector<OperatorValue> values_of(Net& net) {
  torch::manual_seed(5);
  const at::Tensor images = torch::randn({2, 1, 8, 8});
  const at::Tensor classes = torch::tensor({0, 2});
  for (at::Tensor& parameter : net.parameters()) parameter.mutable_grad().reset();
  OperatorValues record(named_parameters_of(net));
  torch::cross_entropy_loss(net.forward(images), classes).backward();
  return record.take();
}

std::size_t first_event(const std::vector<OperatorValue>& a, const std::vector<OperatorValue>& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

TEST(OperatorValues, AreTheSameForTheSameStep) {
  torch::manual_seed(1);
  Net net;
  const auto once = values_of(net);
  EXPECT_GT(once.size(), 50U);
  const auto again = values_of(net);
  const std::size_t at = first_event(once, again);
  EXPECT_EQ(at, once.size()) << once[at].name << " or " << again[at].name << " at depth " << once[at].depth;
}

TEST(OperatorValues, ABitOfAWeightShowsFirstAtItsLayer) {
  torch::manual_seed(1);
  Net net;
  const auto before = values_of(net);
  {
    const torch::NoGradGuard no_grad;
    auto* const bits = reinterpret_cast<std::uint32_t*>(net.second->weight.data_ptr<float>());
    bits[7] ^= 1U << 20U;
  }
  const auto after = values_of(net);
  const std::size_t at = first_event(before, after);
  ASSERT_LT(at, before.size());
  EXPECT_EQ(before[at].layer, "second") << before[at].name;
  EXPECT_FALSE(before[at].backward);
}

TEST(OperatorValues, NodesOfTheBackwardBelongToTheLayersOfTheirForward) {
  Net net;
  const auto values = values_of(net);
  const auto node = std::find_if(values.begin(), values.end(),
                                 [](const OperatorValue& value) { return value.name == "ConvolutionBackward0"; });
  ASSERT_NE(node, values.end());
  EXPECT_EQ(node->layer, "conv");
  EXPECT_TRUE(node->backward);
  EXPECT_NE(node->digest, 0U) << "the gradient that arrives";
}

TEST(OperatorValues, MemoryThatNobodyHasWrittenIsNotLookedAt) {
  OperatorValues record({});
  const at::Tensor made = at::empty({1000});
  const at::Tensor view = made.view({10, 100});
  for (const OperatorValue& value : record.take()) EXPECT_EQ(value.digest, 0U) << value.name;
}

TEST(OperatorValues, OtherThreadsAreNotRecorded) {
  OperatorValues record({});
  std::thread([] { (void)at::ones({3}); }).join();
  EXPECT_TRUE(record.take().empty());
}

TEST(OperatorValues, StridesDoNotCount) {
  const at::Tensor images = torch::randn({2, 3, 4, 5});
  const std::uint64_t digest = observe::digest_of_values(images);
  EXPECT_EQ(observe::digest_of_values(images.contiguous(at::MemoryFormat::ChannelsLast)), digest);
  EXPECT_NE(observe::digest_of_values(images.transpose(2, 3)), digest);
  EXPECT_EQ(observe::digest_of_values(at::Tensor()), 0U);
}

/// Later steps of a process allocate less new memory than the first one.
TEST(OperatorValues, LeaveOutWhatOnlyMakesMemory) {
  const at::Tensor one = at::ones({4});
  OperatorValues record({});
  const at::Tensor made = at::empty({4});
  made.resize_({2});
  (void)at::empty_like(one);
  (void)at::zeros({4}).fill_(2);
  (void)at::full({4}, 3);
  (void)at::neg(one);
  const std::vector<OperatorValue> values = record.take();
  ASSERT_FALSE(values.empty());
  for (const OperatorValue& value : values) EXPECT_EQ(value.name, "aten::neg");
}

}  // namespace operator_values_test
}  // namespace lockstep::test
