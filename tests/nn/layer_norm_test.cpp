// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layer_norm.h"

#include <ATen/ops/layer_norm.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <limits>

#include "lockstep/base/error.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace layer_norm_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> width;

  [[nodiscard]] std::vector<std::int64_t> shape() const {
    std::vector<std::int64_t> all = rows;
    all.insert(all.end(), width.begin(), width.end());
    return all;
  }
};

void PrintTo(const Case& c, std::ostream* out) { *out << testing::PrintToString(c.shape()); }

at::Tensor values(const Case& c, std::uint64_t seed, double mean = 0.4) {
  seed_all(seed);
  return (at::randn(c.shape()) * 2 + mean).to(at::kBFloat16).to(at::kFloat);
}

LayerNorm layer_of(const Case& c) {
  seed_all(3);
  LayerNorm layer{torch::nn::LayerNormOptions(c.width)};
  const at::NoGradGuard no_grad;
  layer->weight.copy_(at::randn(c.width));
  layer->bias.copy_(at::randn(c.width));
  return layer;
}

/// Out, and the gradients of input, weight and bias.
using Outcome = std::vector<at::Tensor>;

Outcome step(const Case& c, at::ScalarType type, double mean = 0.4) {
  LayerNorm layer = layer_of(c);
  const at::Tensor x = values(c, 1, mean).to(type).requires_grad_();
  const at::Tensor out = layer(x);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("LayerNormFunction"));
  out.backward(values(c, 2, 0).to(type));
  return {out, x.grad(), layer->weight.grad(), layer->bias.grad()};
}

/// libtorch's in double.
Outcome reference(const Case& c, double mean = 0.4) {
  const LayerNorm layer = layer_of(c);
  const at::Tensor x = values(c, 1, mean).to(at::kDouble).requires_grad_();
  const at::Tensor weight = layer->weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor bias = layer->bias.detach().to(at::kDouble).requires_grad_();
  const at::Tensor out = at::layer_norm(x, c.width, weight, bias, 1e-5);
  out.backward(values(c, 2, 0).to(at::kDouble));
  return {out, x.grad(), weight.grad(), bias.grad()};
}

class LayerNormTest : public testing::TestWithParam<Case> {};

TEST_P(LayerNormTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const Outcome found = step(GetParam(), at::kFloat);
  const Outcome expected = reference(GetParam());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], expected[i]), 2e-6) << i;
}

TEST_P(LayerNormTest, InBfloat16TheyAreToTheRounding) {
  const Outcome found = step(GetParam(), at::kBFloat16);
  const Outcome expected = reference(GetParam());
  EXPECT_EQ(found[0].scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(found[0], expected[0]), 4e-3);
  EXPECT_LT(difference(found[1], expected[1]), 4e-3);
  EXPECT_LT(difference(found[2], expected[2]), 2e-6);  // sums are float32
  EXPECT_LT(difference(found[3], expected[3]), 2e-6);
}

TEST_P(LayerNormTest, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([&] { return step(GetParam(), at::kFloat); }));
}

INSTANTIATE_TEST_SUITE_P(Shapes, LayerNormTest,
                         testing::Values(Case{{130}, {256}}, Case{{7, 50}, {100}}, Case{{400}, {37}},
                                         Case{{3, 65}, {4, 24}}, Case{{66}, {1024}}));

TEST(LayerNorm, AMeanFarFromZeroCostsNoDigitsOfTheVariance) {
  const Case c{{64}, {256}};
  EXPECT_LT(difference(step(c, at::kFloat, 1000)[0], reference(c, 1000)[0]), 1e-4);
}

TEST(LayerNorm, WhatIsNoNumberStaysInItsRow) {
  const Case c{{64}, {256}};
  at::Tensor x = values(c, 1);
  x[5][7] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor out = layer_of(c)->forward(x);
  EXPECT_TRUE(out[5].isnan().all().item<bool>());
  EXPECT_EQ(out.isnan().sum().item<int>(), 256);
}

TEST(LayerNorm, TakesWhatTheKernelDoesNotThroughLibtorchBitForBit) {
  const Case c{{64}, {256}};
  LayerNorm layer = layer_of(c);
  const at::Tensor strided = values({{64}, {512}}, 1).slice(1, 0, 256);
  EXPECT_TRUE(at::equal(layer(strided), at::layer_norm(strided, c.width, layer->weight, layer->bias)));
  LayerNorm plain{torch::nn::LayerNormOptions(c.width).elementwise_affine(false)};
  EXPECT_TRUE(at::equal(plain(values(c, 1)), at::layer_norm(values(c, 1), c.width)));
  layer->to(at::kDouble);
  const at::Tensor out = layer(values(c, 1).to(at::kDouble));
  EXPECT_THAT(out.grad_fn()->name(), Not(HasSubstr("LayerNormFunction")));
  EXPECT_ANY_THROW(layer(values({{64}, {255}}, 1)));
}

TEST(LayerNorm, TakesBfloat16ThatIsNotContiguous) {
  const Case c{{64}, {256}};
  LayerNorm layer = layer_of(c);
  const at::Tensor strided = values({{64}, {512}}, 1).to(at::kBFloat16).slice(1, 0, 256);
  EXPECT_TRUE(at::equal(layer(strided), layer(strided.contiguous())));
}

TEST(LayerNorm, InThePlaceOfTorchsHasItsParameters) {
  const torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({256}));
  const LayerNorm layer(std::make_shared<LayerNormImpl>(*norm));
  EXPECT_TRUE(layer->named_parameters()["weight"].is_same(norm->weight));
  EXPECT_TRUE(layer->named_parameters()["bias"].is_same(norm->bias));
}

TEST(LayerNorm, ASecondDerivativeIsRefused) {
  const Case c{{64}, {256}};
  EXPECT_THROW(layer_of(c)->forward(values(c, 1).requires_grad_()).sum().backward({}, true, true), UsageError);
}

}  // namespace layer_norm_test
}  // namespace lockstep::nn
