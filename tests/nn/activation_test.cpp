// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/activation.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <limits>

#include "lockstep/base/error.h"
#include "nn/layer_testing.h"
#include "nn/vector/kernel_table.h"

namespace lockstep::nn {
namespace activation_test {

using ::testing::HasSubstr;
using ::testing::Not;

// Not a multiple of any vector, nor of a block of dropout bits.
constexpr std::int64_t kOdd = 70001;

at::Tensor values(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  seed_all(2);
  return at::randn(shape).to(type);
}

class ActivationOfType : public testing::TestWithParam<at::ScalarType> {};

TEST_P(ActivationOfType, DropoutIsAProductWithItsMaskForwardAndBackward) {
  for (const double p : {0.5, 0.2}) {
    const at::Tensor x = values({kOdd}, GetParam()).requires_grad_();
    const at::Tensor grad = at::randn({kOdd}).to(GetParam());
    seed_all(7);
    const at::Tensor out = Dropout(p)(x);
    out.backward(grad);
    const at::Tensor factors = dropout_factors(kOdd, p, 7);
    EXPECT_THAT(out.grad_fn()->name(), HasSubstr("DropoutFunction"));
    EXPECT_TRUE(at::equal(out, (x.to(at::kDouble) * factors).to(at::kFloat).to(GetParam()))) << p;
    EXPECT_TRUE(at::equal(x.grad(), (grad.to(at::kDouble) * factors).to(at::kFloat).to(GetParam()))) << p;
  }
}

TEST_P(ActivationOfType, ReLUHasLibtorchsBitsForwardAndBackward) {
  const at::Tensor x = values({4 * kOdd}, GetParam()).requires_grad_();
  const at::Tensor same = x.detach().clone().requires_grad_();
  const at::Tensor grad = at::randn({4 * kOdd}).to(GetParam());
  const at::Tensor out = ReLU()(x);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("ReLUFunction"));
  const at::Tensor expected = at::relu(same);
  out.backward(grad);
  expected.backward(grad);
  EXPECT_TRUE(at::equal(out, expected));
  EXPECT_TRUE(at::equal(x.grad(), same.grad()));
}

TEST_P(ActivationOfType, HaveTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([&] {
    const at::Tensor x = values({4 * kOdd}, GetParam()).requires_grad_();
    const at::Tensor out = ReLU()(Dropout(0.3)(x));
    out.backward(out.detach());
    return std::vector<at::Tensor>{out, x.grad()};
  }));
}

INSTANTIATE_TEST_SUITE_P(Types, ActivationOfType, testing::Values(at::kFloat, at::kBFloat16));

TEST(Activation, DropoutFollowsTheMemoryOrderOfItsInputAndTakesAnyOfTheGradient) {
  const at::Tensor x = values({2, 48, 20, 30}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor grad = at::randn(x.sizes());  // the other layout
  const at::Tensor out = Dropout(0.5)(x);
  ASSERT_THAT(out.grad_fn()->name(), HasSubstr("DropoutFunction"));
  out.backward(grad);
  EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(x.grad(), at::where(out != 0, grad * 2, at::zeros_like(grad))));
}

TEST(Activation, InEvaluationDropoutIsTheIdentity) {
  Dropout layer(0.5);
  layer->eval();
  const at::Tensor x = values({kOdd});
  EXPECT_TRUE(layer(x).is_same(x));
}

TEST(Activation, WhatIsNoNumberStaysNone) {
  at::Tensor x = values({kOdd});
  x[17] = std::numeric_limits<float>::quiet_NaN();
  x[18] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Dropout(0.5)(x).isnan().sum().item<int>(), 2);  // whether it is kept or not, as in libtorch
  EXPECT_EQ(ReLU()(x).isnan().sum().item<int>(), 2);
  EXPECT_EQ(ReLU()(x.repeat({4})).isnan().sum().item<int>(), 8);
}

TEST(Activation, TakesWhatTheKernelsDoNotThroughLibtorch) {
  for (const at::Tensor& x : {values({kOdd}, at::kDouble), values({2, kOdd}).slice(1, 0, 40000), values({4})}) {
    const at::Tensor input = x.detach().requires_grad_();
    seed_all(3);
    const at::Tensor out = Dropout(0.5)(input);
    seed_all(3);
    const at::Tensor expected = at::dropout(x, 0.5, true);
    EXPECT_TRUE(at::equal(out, expected));
    EXPECT_THAT(out.grad_fn()->name(), Not(HasSubstr("DropoutFunction")));
    EXPECT_TRUE(at::equal(ReLU()(input), at::relu(x)));
  }
  EXPECT_EQ(Dropout(1.0)(values({kOdd})).abs().sum().item<float>(), 0);
}

TEST(Activation, ASecondDerivativeAndAnImpossibleProbabilityAreRefused) {
  const at::Tensor x = values({kOdd}).requires_grad_();
  EXPECT_THROW(Dropout(0.5)(x).sum().backward({}, true, true), UsageError);
  EXPECT_THROW(ReLU()(x.repeat({4})).sum().backward({}, true, true), UsageError);
  EXPECT_THROW(Dropout(1.5), UsageError);
  EXPECT_THROW(Dropout(-0.1), UsageError);
}

}  // namespace activation_test
}  // namespace lockstep::nn
