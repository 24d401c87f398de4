// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/autocast.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace autocast_test {

constexpr auto kCpu = c10::DeviceType::CPU;

at::Tensor weight() { return at::ones({4, 3, 3, 3}).mul_(0.125).requires_grad_(); }

double output_sum(const at::Tensor& w) {
  return at::conv2d(at::ones({1, 3, 8, 8}), w).to(at::kDouble).sum().item<double>();
}

void double_in_place(const at::Tensor& w) {
  const at::NoGradGuard no_grad;
  w.mul_(2);
}

TEST(Autocast, ComputesInBf16UntilItEnds) {
  const at::Tensor w = at::ones({2, 2});
  {
    const Autocast autocast(kCpu, Amp::kBf16);
    EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kBFloat16);
  }
  EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kFloat);
}

TEST(Autocast, NestsAndBringsBackTheOuterState) {
  const at::Tensor w = at::ones({2, 2});
  const Autocast outer(kCpu, Amp::kBf16);
  {
    const Autocast inner(kCpu, Amp::kNone);
    EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(at::linear(at::ones({1, 2}), w).scalar_type(), at::kBFloat16);
}

TEST(Autocast, SeesAWeightThatChangesInTheRegion) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16);
  const double before = output_sum(w);
  double_in_place(w);
  EXPECT_EQ(output_sum(w), 2 * before);
}

TEST(Autocast, WithItsWeightCacheStartsEveryRegionAnew) {
  const at::Tensor w = weight();
  double before = 0;
  for (int region = 0; region < 2; ++region) {
    const Autocast autocast(kCpu, Amp::kBf16, {.weight_cache = true});
    const double now = output_sum(w);
    if (region == 1) {
      EXPECT_EQ(now, 2 * before);
    }
    before = now;
    double_in_place(w);
  }
}

TEST(Autocast, KeepsTheGradientAfterAPlainNoGradForward) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16);
  {
    const at::NoGradGuard no_grad;
    (void)output_sum(w);
  }
  at::conv2d(at::ones({1, 3, 8, 8}), w).sum().backward();
  ASSERT_TRUE(w.grad().defined());
  EXPECT_GT(w.grad().sum().item<double>(), 0);
}

TEST(NoGrad, KeepsTheGradientEvenWithTheWeightCache) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16, {.weight_cache = true});
  {
    const NoGrad evaluation;
    (void)output_sum(w);
  }
  const at::Tensor out = at::conv2d(at::ones({1, 3, 8, 8}), w);
  ASSERT_TRUE(out.requires_grad());
  out.sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(NoGrad, SeesAWeightThatChangedInTheRegion) {
  const at::Tensor w = weight();
  const Autocast autocast(kCpu, Amp::kBf16, {.weight_cache = true});
  const double before = output_sum(w);
  double_in_place(w);
  const NoGrad evaluation;
  EXPECT_FALSE(at::GradMode::is_enabled());
  EXPECT_EQ(output_sum(w), 2 * before);
}

TEST(Autocast, RefusesFp16OnTheCpu) { EXPECT_THROW(Autocast(kCpu, Amp::kFp16), UsageError); }

TEST(Autocast, LeavesTheStateAloneWhenItRefuses) {
  const bool cache = tensor::autocast_state(kCpu).weight_cache;
  EXPECT_THROW(Autocast(kCpu, Amp::kFp16), UsageError);
  EXPECT_FALSE(tensor::autocast_state(kCpu).enabled);
  EXPECT_EQ(tensor::autocast_state(kCpu).weight_cache, cache);
}

TEST(Amp, NamesGoBothWays) {
  for (const Amp amp : {Amp::kNone, Amp::kBf16, Amp::kFp16}) EXPECT_EQ(amp_from_name(to_string(amp)), amp);
  EXPECT_THROW((void)amp_from_name("bf61"), UsageError);
}

}  // namespace autocast_test
}  // namespace lockstep
