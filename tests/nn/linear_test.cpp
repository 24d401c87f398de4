// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/plain_operators.h"
#include "nn/conv/conv_table.h"
#include "nn/layer_testing.h"

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

/// A product's arguments, and the gradient that comes back.
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

std::vector<at::Tensor> backward_of(const at::Tensor& out, const Arguments& of) {
  out.backward(of.grad.to(out.scalar_type()));
  std::vector<at::Tensor> all = {out.detach(), of.input.grad(), of.weight.grad()};
  if (of.bias.defined()) all.push_back(of.bias.grad());
  return all;
}

std::vector<at::Tensor> step_of(const Case& c, at::ScalarType type) {
  const Arguments of = arguments_of(c, type);
  const at::Tensor out = nn::linear(of.input, of.weight, of.bias);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("LinearFunction"));
  EXPECT_EQ(out.scalar_type(), type);
  return backward_of(out, of);
}

std::vector<at::Tensor> exact_step_of(const Case& c) {
  Arguments of = arguments_of(c, at::kDouble);
  of.weight = of.weight.detach().to(at::kDouble).requires_grad_();
  if (c.bias) of.bias = of.bias.detach().to(at::kDouble).requires_grad_();
  return backward_of(at::linear(of.input, of.weight, of.bias), of);
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

}  // namespace linear_test
}  // namespace lockstep::nn
