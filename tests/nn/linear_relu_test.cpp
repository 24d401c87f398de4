// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/linear_relu.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace linear_relu_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::vector<std::int64_t> shape;  ///< of the input
  std::int64_t out;
  double dropout;
};

void PrintTo(const Case& c, std::ostream* to) {
  *to << testing::PrintToString(c.shape) << " to " << c.out << ", dropout " << c.dropout;
}

/// What a step gives: out, and the gradients of input, weight and bias.
using Outcome = std::vector<at::Tensor>;

at::Tensor input_of(const Case& c) {
  seed_all(1);
  return at::randn(c.shape).to(at::kBFloat16).to(at::kFloat);
}

std::vector<std::int64_t> out_shape(const Case& c) {
  std::vector<std::int64_t> shape = c.shape;
  shape.back() = c.out;
  return shape;
}

at::Tensor grad_of(const Case& c) {
  seed_all(6);
  return at::randn(out_shape(c)).to(at::kBFloat16).to(at::kFloat);
}

LinearReLU layer_of(const Case& c) {
  seed_all(3);
  return LinearReLU(torch::nn::LinearOptions(c.shape.back(), c.out), LinearReLUOptions{.dropout = c.dropout});
}

Outcome step(LinearReLU layer, const Case& c) {
  const at::Tensor x = input_of(c).requires_grad_();
  seed_all(7);
  const at::Tensor out = layer(x);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("LinearReLUFunction"));
  out.backward(grad_of(c).to(out.scalar_type()));
  return {out, x.grad(), layer->weight.grad(), layer->bias.grad()};
}

/// libtorch's layers in double, with the same dropout.
Outcome reference(const Case& c) {
  const LinearReLU layer = layer_of(c);
  const at::Tensor x = input_of(c).to(at::kDouble).requires_grad_();
  const at::Tensor weight = layer->weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor bias = layer->bias.detach().to(at::kDouble).requires_grad_();
  at::Tensor out = at::linear(x, weight, bias);
  if (c.dropout > 0) out = out * dropout_factors(out.numel(), c.dropout, 7).view(out.sizes());
  out = at::relu(out);
  out.backward(grad_of(c).to(at::kDouble));
  return {out, x.grad(), weight.grad(), bias.grad()};
}

class LinearReLUTest : public testing::TestWithParam<Case> {};

TEST_P(LinearReLUTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const Outcome found = step(layer_of(GetParam()), GetParam());
  const Outcome expected = reference(GetParam());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], expected[i]), 2e-6) << i;
}

TEST_P(LinearReLUTest, UnderAutocastTheyAreToTheRoundingOfBfloat16) {
  LinearReLU layer = layer_of(GetParam());
  const Outcome found = [&] {
    const Autocasting on;
    return step(layer, GetParam());
  }();
  const Outcome expected = reference(GetParam());
  EXPECT_EQ(found[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(found[2].scalar_type(), at::kFloat);
  // Elements near 0 may be on the other side of ReLU after rounding: their gradients come or go.
  EXPECT_LT(difference(found[0], expected[0]), 1e-2);
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LT((found[i].to(at::kDouble) - expected[i]).norm().item<double>() / expected[i].norm().item<double>(), 5e-2)
        << i;
  }
}

/// Small whole numbers: a product of them is exact in whatever order it is summed. Some kernels of OpenBLAS (Haswell's)
/// sum in another order on another number of threads, and the products are libtorch's.
at::Tensor whole(const at::Tensor& numbers) { return (numbers * 4).round().clamp(-16, 16); }

TEST_P(LinearReLUTest, BiasDropoutAndMaskHaveTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([&] {
    LinearReLU layer = layer_of(GetParam());
    {
      const at::NoGradGuard no_grad;
      layer->weight.copy_(whole(layer->weight * std::sqrt(static_cast<double>(layer->weight.size(1)))));
    }
    seed_all(7);  // of the dropout
    const at::Tensor out = layer(whole(input_of(GetParam())));
    out.backward(grad_of(GetParam()).to(out.scalar_type()));
    return Outcome{out.detach(), layer->bias.grad()};
  }));
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearReLUTest,
                         testing::Values(Case{{64, 200}, 1024, 0}, Case{{1000, 24}, 64, 0.25},
                                         Case{{64, 200}, 1024, 0.5}, Case{{300, 33}, 61, 0.25},
                                         Case{{5, 70, 24}, 40, 0}));

TEST(LinearReLU, WithoutABiasIsLinearWithoutOne) {
  const Case c{{64, 32}, 128, 0};
  LinearReLU layer{torch::nn::LinearOptions(32, 128).bias(false)};
  const at::Tensor x = input_of(c).requires_grad_();
  const at::Tensor out = layer(x);
  EXPECT_LT(difference(out, at::relu(at::linear(x, layer->weight))), 1e-6);
  out.sum().backward();
  EXPECT_TRUE(layer->weight.grad().defined());
  EXPECT_EQ(layer->parameters().size(), 1U);
}

TEST(LinearReLU, AfterAForwardWithoutGradientsInTheSameAutocastTheWeightStillGetsOne) {
  const Case c{{64, 32}, 128, 0};
  LinearReLU layer = layer_of(c);
  const Autocasting on;
  {
    const at::NoGradGuard no_grad;
    (void)layer(input_of(c));
  }
  layer(input_of(c)).sum().backward();
  EXPECT_TRUE(layer->weight.grad().defined());
}

TEST(LinearReLU, InEvaluationHasNoDropout) {
  const Case c{{64, 32}, 128, 0.5};
  LinearReLU layer = layer_of(c);
  layer->eval();
  EXPECT_LT(difference(layer(input_of(c)), at::relu(at::linear(input_of(c), layer->weight, layer->bias))), 1e-6);
}

TEST(LinearReLU, WhatIsNoNumberIsNotHiddenByReLUOrDropout) {
  const Case c{{64, 32}, 128, 0.5};
  at::Tensor x = input_of(c);
  x[3][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(layer_of(c)->forward(x).isnan().sum().item<int>(), 128);
}

TEST(LinearReLU, TakesWhatTheKernelsDoNotThroughLibtorchBitForBit) {
  const Case c{{64, 32}, 128, 0.5};
  LinearReLU layer = layer_of(c);
  layer->to(at::kDouble);
  const at::Tensor x = input_of(c).to(at::kDouble);
  seed_all(9);
  const at::Tensor found = layer(x);
  seed_all(9);
  EXPECT_TRUE(at::equal(found, at::relu(at::dropout(at::linear(x, layer->weight, layer->bias), 0.5, true))));
  EXPECT_THAT(found.grad_fn()->name(), Not(HasSubstr("LinearReLUFunction")));
}

TEST(LinearReLU, InThePlaceOfALinearHasItsParametersFrozenOrNot) {
  const torch::nn::Linear linear(32, 128);
  linear->weight.set_requires_grad(false);
  const LinearReLU layer(std::make_shared<LinearReLUImpl>(*linear, LinearReLUOptions{}));
  EXPECT_TRUE(layer->named_parameters()["weight"].is_same(linear->weight));
  EXPECT_TRUE(layer->named_parameters()["bias"].is_same(linear->bias));
  EXPECT_FALSE(layer->weight.requires_grad());
  EXPECT_TRUE(layer->bias.requires_grad());
  LinearReLU(layer)->forward(input_of({{64, 32}, 128, 0})).sum().backward();
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().defined());
}

TEST(LinearReLU, ASecondDerivativeIsRefused) {
  const Case c{{64, 32}, 128, 0};
  EXPECT_THROW(layer_of(c)->forward(input_of(c).requires_grad_()).sum().backward({}, true, true), UsageError);
}

}  // namespace linear_relu_test
}  // namespace lockstep::nn
