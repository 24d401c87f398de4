// SPDX-License-Identifier: Apache-2.0
// Transformer layers.
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/nn/attention.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/scale_shift.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace attention_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::int64_t items, heads, queries, keys, depth;
  std::int64_t windows = 0;   ///< number of windows of the bias; 0: no bias
  bool bias_of_heads = true;  ///< false: one bias for all heads, without a gradient
  bool hidden = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.items << " items, " << c.heads << " heads of " << c.depth << ", " << c.queries << " queries, " << c.keys
       << " keys, bias of " << c.windows << (c.hidden ? ", hidden ones" : "");
}

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16).to(at::kFloat); }

/// Strided rows as in a network: query, key and value side by side in one tensor [B, N, heads * d].
struct Arguments {
  at::Tensor queries, keys, values;
  AttentionOptions options;

  [[nodiscard]] at::Tensor by_head(const at::Tensor& rows, std::int64_t heads) const {
    return rows.view({rows.size(0), rows.size(1), heads, -1}).transpose(1, 2);
  }
};

Arguments arguments_of(const Case& c, at::ScalarType type) {
  seed_all(6);
  const auto rows = [&](std::int64_t count) {
    return drawn({c.items, count, c.heads * c.depth}).to(type).requires_grad_();
  };
  Arguments made{rows(c.queries), rows(c.keys), rows(c.keys), {.scale = 0.4, .bias = {}, .hidden = {}}};
  if (c.windows > 0) {
    made.options.bias = drawn({c.windows, c.bias_of_heads ? c.heads : 1, c.queries, c.keys});
    if (type == at::kDouble) made.options.bias = made.options.bias.to(type);
    if (c.bias_of_heads) made.options.bias.requires_grad_();
  }
  if (c.hidden) {
    made.options.hidden = at::rand({c.items, 1, c.queries, c.keys}) < 0.4;
    made.options.hidden.select(3, 0).fill_(false);
  }
  return made;
}

/// The result, and the gradients of queries, keys, values and bias.
std::vector<at::Tensor> backward_of(const at::Tensor& out, const Arguments& arguments) {
  seed_all(3);
  out.backward(drawn(out.sizes()).to(out.scalar_type()));
  std::vector<at::Tensor> all = {out.detach(), arguments.queries.grad(), arguments.keys.grad(),
                                 arguments.values.grad()};
  if (arguments.options.bias.defined() && arguments.options.bias.requires_grad())
    all.push_back(arguments.options.bias.grad());
  return all;
}

std::vector<at::Tensor> pass_of(const Case& c, at::ScalarType type) {
  const Arguments arguments = arguments_of(c, type);
  const at::Tensor out =
      attention(arguments.by_head(arguments.queries, c.heads), arguments.by_head(arguments.keys, c.heads),
                arguments.by_head(arguments.values, c.heads), arguments.options);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("AttentionFunction"));
  EXPECT_EQ(out.scalar_type(), type);
  return backward_of(out, arguments);
}

std::vector<at::Tensor> exact_pass_of(const Case& c) {
  const Arguments arguments = arguments_of(c, at::kDouble);
  at::Tensor scores = at::matmul(arguments.by_head(arguments.queries, c.heads),
                                 arguments.by_head(arguments.keys, c.heads).transpose(2, 3)) *
                      arguments.options.scale;
  if (c.windows > 0) {
    scores = (scores.view({-1, c.windows, c.heads, c.queries, c.keys}) + arguments.options.bias).view(scores.sizes());
  }
  if (c.hidden) scores = scores.masked_fill(arguments.options.hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), arguments.by_head(arguments.values, c.heads));
  return backward_of(mixed.transpose(1, 2).reshape({c.items, c.queries, c.heads * c.depth}), arguments);
}

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const std::vector<at::Tensor> found = pass_of(GetParam(), at::kFloat);
  const std::vector<at::Tensor> exact = exact_pass_of(GetParam());
  ASSERT_EQ(found.size(), exact.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], exact[i]), 5e-6) << i;
}

TEST_P(AttentionTest, InBfloat16OnlyResultsAreRounded) {
  const Autocasting autocast;
  const std::vector<at::Tensor> found = pass_of(GetParam(), at::kBFloat16);
  const std::vector<at::Tensor> exact = exact_pass_of(GetParam());
  ASSERT_EQ(found.size(), exact.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], exact[i]), 1.0 / 256) << i;
}

TEST_P(AttentionTest, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return pass_of(GetParam(), at::kFloat); }));
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Case{3, 2, 5, 7, 8}, Case{2, 3, 16, 16, 32, 0, true, true},
                                         Case{4, 2, 9, 9, 24, 2}, Case{3, 4, 37, 37, 32, 1, true, true},
                                         Case{2, 3, 33, 33, 32, 2, false}, Case{5, 1, 1, 40, 16}));

TEST(Attention, AQueryThatSeesNothingHasNoNumber) {
  const at::Tensor rows = at::randn({1, 1, 4, 8});
  at::Tensor hidden = at::zeros({4, 4}, at::kBool);
  hidden[2].fill_(true);
  const at::Tensor found = attention(rows, rows, rows, {.scale = 1, .bias = {}, .hidden = hidden});
  EXPECT_TRUE(found[0][2].isnan().all().item<bool>());
  EXPECT_TRUE(found[0][1].isfinite().all().item<bool>());
  EXPECT_TRUE(found[0][3].isfinite().all().item<bool>());
}

TEST(Attention, WhatTheKernelDoesNotTakeIsLibtorchs) {
  const at::Tensor rows = at::randn({2, 3, 5, 6}).requires_grad_();
  const at::Tensor bias = at::randn({2, 1, 5, 5});
  const at::Tensor found = attention(rows, rows, rows, {.scale = 0.5, .bias = bias, .hidden = {}});
  EXPECT_THAT(found.grad_fn()->name(), Not(HasSubstr("AttentionFunction")));
  const at::Tensor shares = at::softmax(at::matmul(rows * 0.5, rows.transpose(2, 3)) + bias, -1);
  EXPECT_TRUE(at::equal(found, at::matmul(shares, rows).transpose(1, 2).reshape({2, 5, 18})));
}

TEST(Attention, ASecondDerivativeIsRefused) {
  const at::Tensor rows = at::randn({1, 1, 4, 8}).requires_grad_();
  const at::Tensor out = attention(rows, rows, rows).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {rows}, {}, true, true), UsageError);
}

}  // namespace attention_test

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

/// The output, and the gradients of input, weight and bias.
using Outcome = std::vector<at::Tensor>;

Outcome step(const Case& c, at::ScalarType type, double mean = 0.4) {
  LayerNorm layer = layer_of(c);
  const at::Tensor x = values(c, 1, mean).to(type).requires_grad_();
  const at::Tensor out = layer(x);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("LayerNormFunction"));
  out.backward(values(c, 2, 0).to(type));
  return {out, x.grad(), layer->weight.grad(), layer->bias.grad()};
}

/// libtorch's layers in double precision.
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

/// The result, and the gradients of input, scale and shift.
std::vector<at::Tensor> pass_of(at::IntArrayRef shape, at::ScalarType type, at::ScalarType numbers) {
  seed_all(2);
  at::Tensor x = at::randn(shape).to(at::kBFloat16).to(type);
  if (x.dim() == 4) x = x.contiguous(at::MemoryFormat::ChannelsLast);
  x.requires_grad_();
  const at::Tensor scale = at::full({1}, 1.25, numbers).requires_grad_();
  const at::Tensor shift = at::full({1}, -0.5, numbers).requires_grad_();
  const at::Tensor out = scale_shift(x, scale, shift);
  EXPECT_EQ(out.scalar_type(), type);
  out.backward(at::randn(shape).to(at::kBFloat16).to(type));
  return {out.detach(), x.grad(), scale.grad(), shift.grad()};
}

TEST(ScaleShift, ForwardAndGradientsAreLibtorchsInDouble) {
  const std::vector<std::vector<std::int64_t>> shapes = {{2, 24, 31, 17}, {5}, {3, 16, 80, 80}};
  for (const auto& shape : shapes) {
    const auto exact = pass_of(shape, at::kDouble, at::kDouble);
    const auto found = pass_of(shape, at::kFloat, at::kFloat);
    const auto rounded = pass_of(shape, at::kBFloat16, at::kFloat);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LT(difference(found[i], exact[i]), 1e-5) << i;
      EXPECT_LT(difference(rounded[i], exact[i]), i < 2 ? 1.0 / 256 : 1e-5) << i;
    }
  }
}

TEST(ScaleShift, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return pass_of({3, 16, 80, 80}, at::kFloat, at::kFloat); }));
}

TEST(ScaleShift, ASecondDerivativeIsRefused) {
  const at::Tensor x = at::randn({4, 8}).requires_grad_();
  const at::Tensor out = scale_shift(x, at::full({1}, 2.0F), at::full({1}, 1.0F)).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {x}, {}, true, true), UsageError);
}

}  // namespace layer_norm_test
}  // namespace lockstep::nn
