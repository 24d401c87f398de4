// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/attention.h"

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
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace attention_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::int64_t items, heads, queries, keys, depth;
  std::int64_t windows = 0;   ///< of the bias; 0: none
  bool bias_of_heads = true;  ///< else one for all heads, without a gradient
  bool hidden = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.items << " items, " << c.heads << " heads of " << c.depth << ", " << c.queries << " queries, " << c.keys
       << " keys, bias of " << c.windows << (c.hidden ? ", hidden ones" : "");
}

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16).to(at::kFloat); }

/// Rows as a network has them: query, key and value side by side in one tensor [B, N, heads * d].
struct Arguments {
  at::Tensor queries, keys, values;
  AttentionOptions options;

  [[nodiscard]] at::Tensor by_head(const at::Tensor& of, std::int64_t heads) const {
    return of.view({of.size(0), of.size(1), heads, -1}).transpose(1, 2);
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
std::vector<at::Tensor> backward_of(const at::Tensor& out, const Arguments& of) {
  seed_all(3);
  out.backward(drawn(out.sizes()).to(out.scalar_type()));
  std::vector<at::Tensor> all = {out.detach(), of.queries.grad(), of.keys.grad(), of.values.grad()};
  if (of.options.bias.defined() && of.options.bias.requires_grad()) all.push_back(of.options.bias.grad());
  return all;
}

std::vector<at::Tensor> pass_of(const Case& c, at::ScalarType type) {
  const Arguments of = arguments_of(c, type);
  const at::Tensor out = attention(of.by_head(of.queries, c.heads), of.by_head(of.keys, c.heads),
                                   of.by_head(of.values, c.heads), of.options);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("AttentionFunction"));
  EXPECT_EQ(out.scalar_type(), type);
  return backward_of(out, of);
}

std::vector<at::Tensor> exact_pass_of(const Case& c) {
  const Arguments of = arguments_of(c, at::kDouble);
  at::Tensor scores =
      at::matmul(of.by_head(of.queries, c.heads), of.by_head(of.keys, c.heads).transpose(2, 3)) * of.options.scale;
  if (c.windows > 0) {
    scores = (scores.view({-1, c.windows, c.heads, c.queries, c.keys}) + of.options.bias).view(scores.sizes());
  }
  if (c.hidden) scores = scores.masked_fill(of.options.hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), of.by_head(of.values, c.heads));
  return backward_of(mixed.transpose(1, 2).reshape({c.items, c.queries, c.heads * c.depth}), of);
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
}  // namespace lockstep::nn
