// SPDX-License-Identifier: Apache-2.0
// Linear layers and the operations after them.
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/nn/activation.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/linear_relu.h"
#include "lockstep/nn/plain_operators.h"
#include "nn/conv/conv_table.h"
#include "nn/layer_testing.h"
#include "nn/vector/kernel_table.h"

namespace lockstep::nn {
namespace linear_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::vector<std::int64_t> shape;  ///< of the input
  std::int64_t out;
  bool bias = true;
};

void PrintTo(const Case& c, std::ostream* to) { *to << testing::PrintToString(c.shape) << " to " << c.out; }

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16).to(at::kFloat); }

/// The arguments of a linear layer, and the incoming gradient.
struct Arguments {
  at::Tensor input, weight, bias, grad;
};

Arguments arguments_of(const Case& c, at::ScalarType type) {
  seed_all(4);
  std::vector<std::int64_t> out = c.shape;
  out.back() = c.out;
  Arguments made{drawn(c.shape), drawn({c.out, c.shape.back()}), c.bias ? drawn({c.out}) : at::Tensor(), drawn(out)};
  made.input = made.input.to(type).requires_grad_();
  made.weight.requires_grad_();
  if (c.bias) made.bias.requires_grad_();
  return made;
}

std::vector<at::Tensor> backward_of(const at::Tensor& out, const Arguments& arguments) {
  out.backward(arguments.grad.to(out.scalar_type()));
  std::vector<at::Tensor> all = {out.detach(), arguments.input.grad(), arguments.weight.grad()};
  if (arguments.bias.defined()) all.push_back(arguments.bias.grad());
  return all;
}

std::vector<at::Tensor> step_of(const Case& c, at::ScalarType type) {
  const Arguments arguments = arguments_of(c, type);
  const at::Tensor out = nn::linear(arguments.input, arguments.weight, arguments.bias);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("LinearFunction"));
  EXPECT_EQ(out.scalar_type(), type);
  return backward_of(out, arguments);
}

std::vector<at::Tensor> exact_step_of(const Case& c) {
  Arguments arguments = arguments_of(c, at::kDouble);
  arguments.weight = arguments.weight.detach().to(at::kDouble).requires_grad_();
  if (c.bias) arguments.bias = arguments.bias.detach().to(at::kDouble).requires_grad_();
  return backward_of(at::linear(arguments.input, arguments.weight, arguments.bias), arguments);
}

class LinearTest : public testing::TestWithParam<Case> {};

TEST_P(LinearTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const std::vector<at::Tensor> found = step_of(GetParam(), at::kFloat);
  const std::vector<at::Tensor> exact = exact_step_of(GetParam());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], exact[i]), 2e-6) << i;
}

TEST_P(LinearTest, InBfloat16OnlyResultsAreRounded) {
  if (!direct_serves(true, conv_processor())) GTEST_SKIP() << "this processor leaves bfloat16 to libtorch";
  const Autocasting autocast;
  const std::vector<at::Tensor> found = step_of(GetParam(), at::kBFloat16);
  const std::vector<at::Tensor> exact = exact_step_of(GetParam());
  EXPECT_LT(difference(found[0], exact[0]), 1.0 / 256);
  EXPECT_LT(difference(found[1], exact[1]), 1.0 / 256);
  for (std::size_t i = 2; i < found.size(); ++i) {
    EXPECT_EQ(found[i].scalar_type(), at::kFloat);
    EXPECT_LT(difference(found[i], exact[i]), 2e-6) << "parameters' gradients are not rounded";
  }
}

TEST_P(LinearTest, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return step_of(GetParam(), at::kFloat); }));
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest,
                         testing::Values(Case{{7, 16}, 32}, Case{{1, 64}, 2}, Case{{2, 300, 96}, 192},
                                         Case{{750, 128}, 66, false}, Case{{3, 5, 6}, 4}, Case{{9, 512}, 130}));

TEST(Linear, APartOfAWeightIsAWeight) {
  seed_all(1);
  const at::Tensor x = at::randn({5, 16}).requires_grad_();
  const at::Tensor all = at::randn({8, 32}).requires_grad_();
  const at::Tensor out = nn::linear(x, all.narrow(1, 16, 16));
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("LinearFunction"));
  EXPECT_LT(difference(out, at::linear(x, all.narrow(1, 16, 16))), 1e-6);
  out.sum().backward();
  EXPECT_LT(difference(all.grad().narrow(1, 16, 16), x.detach().sum(0).expand({8, 16})), 1e-6);
  EXPECT_EQ(all.grad().narrow(1, 0, 16).abs().max().item<float>(), 0);
}

TEST(Linear, WhatTheKernelDoesNotTakeIsLibtorchs) {
  const at::Tensor x = at::randn({4, 8}, at::kDouble).requires_grad_();
  const at::Tensor weight = at::randn({3, 8}, at::kDouble);
  EXPECT_TRUE(at::equal(nn::linear(x, weight), at::linear(x, weight)));
  const at::Tensor single = x.detach().to(at::kFloat).requires_grad_();
  const at::Tensor filters = weight.to(at::kFloat);
  const PlainOperators plain;
  EXPECT_THAT(nn::linear(single, filters).grad_fn()->name(), Not(HasSubstr("LinearFunction")));
  EXPECT_TRUE(at::equal(nn::linear(single, filters), at::linear(single, filters)));
}

TEST(Linear, ALayerHasTorchsNamesAndFirstWeights) {
  seed_all(8);
  const torch::nn::Linear theirs(12, 6);
  seed_all(8);
  Linear ours(12, 6);
  EXPECT_EQ(ours->named_parameters().keys(), theirs->named_parameters().keys());
  EXPECT_TRUE(at::equal(ours->weight, theirs->weight));
  EXPECT_TRUE(at::equal(ours->bias, theirs->bias));
  theirs->weight.set_requires_grad(false);
  const Linear taken(std::make_shared<LinearImpl>(*theirs));
  EXPECT_TRUE(taken->weight.is_same(theirs->weight));
  EXPECT_FALSE(taken->weight.requires_grad()) << "frozen stays frozen";
}

TEST(Linear, ASecondDerivativeIsRefused) {
  const at::Tensor x = at::randn({4, 8}).requires_grad_();
  const at::Tensor out = nn::linear(x, at::randn({6, 8})).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {x}, {}, true, true), UsageError);
}

// A multiple of neither a vector nor a block of dropout bits.
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
  const at::Tensor grad = at::randn(x.sizes());  // the other memory layout
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
  EXPECT_EQ(Dropout(0.5)(x).isnan().sum().item<int>(), 2);  // kept or not, as in libtorch
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

}  // namespace linear_test

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

/// The results of a step: the output, and the gradients of input, weight and bias.
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
  // Rounding may move elements near 0 across ReLU's threshold: their gradients appear or vanish.
  EXPECT_LT(difference(found[0], expected[0]), 1e-2);
  for (std::size_t i = 1; i < found.size(); ++i) {
    EXPECT_LT((found[i].to(at::kDouble) - expected[i]).norm().item<double>() / expected[i].norm().item<double>(), 5e-2)
        << i;
  }
}

/// Small integers: their products are exact in any order of summation. The products are libtorch's, and some OpenBLAS
/// kernels (Haswell's) sum in a different order on a different number of threads.
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
