// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/clip.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/tensor/random.h"

namespace lockstep {
namespace clip_test {

at::Tensor with_grad(const at::Tensor& grad) {
  const at::Tensor value = at::ones(grad.sizes());
  value.mutable_grad() = grad;
  return value;
}

TEST(Clip, NormIsThatOfAllGradientsTogether) {
  seed_all(1);
  const at::Tensor a = at::randn({70, 91});
  const at::Tensor b = at::randn({5});
  const double expected =
      std::sqrt(a.to(at::kDouble).square().sum().item<double>() + b.to(at::kDouble).square().sum().item<double>());
  const NamedTensors parameters{{"a", with_grad(a)}, {"b", with_grad(b)}, {"none", at::ones({3})}};
  EXPECT_NEAR(grad_norm(parameters), expected, 1e-12 * expected);
}

TEST(Clip, NormHasTheSameBitsInAnyOrderOfParameters) {
  seed_all(2);
  const NamedTensors there{
      {"a", with_grad(at::randn({9001}))}, {"b", with_grad(at::randn({17}))}, {"c", with_grad(at::randn({4096}))}};
  const NamedTensors back(there.rbegin(), there.rend());
  EXPECT_EQ(grad_norm(there), grad_norm(back));
}

TEST(Clip, NormFollowsTheParametersMemoryNotTheGradients) {
  seed_all(2);
  const at::Tensor grad = at::randn({64, 32, 3, 3});
  const at::Tensor value = at::ones({64, 32, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  value.mutable_grad() = grad;
  const double one = grad_norm({{"w", value}});
  value.mutable_grad() = grad.contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(grad_norm({{"w", value}}), one);
}

TEST(Clip, ScalesDownToTheMaximumAndReturnsTheNormBefore) {
  const at::Tensor grad = at::full({4}, 3.0);
  EXPECT_DOUBLE_EQ(clip_grad_norm(NamedTensors{{"w", with_grad(grad)}}, 1.5), 6.0);
  EXPECT_NEAR(grad[0].item<double>(), 0.75, 1e-6);
}

TEST(Clip, LeavesSmallGradientsBitForBit) {
  const at::Tensor grad = at::full({4}, 0.1);
  const at::Tensor before = grad.clone();
  clip_grad_norm(NamedTensors{{"w", with_grad(grad)}}, 1.5);
  EXPECT_TRUE(grad.equal(before));
}

TEST(Clip, KeepsANormThatIsNotFiniteForTheCaller) {
  const at::Tensor grad = at::full({2}, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isinf(clip_grad_norm(NamedTensors{{"w", with_grad(grad)}}, 1.0)));
  EXPECT_EQ(clip_factor(std::nan(""), 1.0), 1.0);
  EXPECT_THROW((void)clip_factor(1.0, 0.0), UsageError);
}

TEST(Clip, ByValueEachElementIsPutBetweenTheBounds) {
  const at::Tensor grad = at::full({4}, 3.0);
  grad[0] = -7.0;
  grad[1] = 0.25;
  clip_grad_value(NamedTensors{{"w", with_grad(grad)}, {"none", at::ones({3})}}, 0.5);
  EXPECT_EQ(grad[0].item<double>(), -0.5);
  EXPECT_EQ(grad[1].item<double>(), 0.25);
  EXPECT_EQ(grad[2].item<double>(), 0.5);
  EXPECT_THROW(clip_grad_value(NamedTensors{}, 0), UsageError);
}

TEST(Clip, TheNormOfADeviceIsTheSameButForTheOrderOfAdditions) {
  seed_all(4);
  NamedTensors parameters;
  for (const std::int64_t size : {1, 100, 5000}) {
    const at::Tensor value = at::zeros({size}).requires_grad_();
    value.mutable_grad() = at::randn({size});
    parameters.emplace_back(std::to_string(size), value);
  }
  parameters.emplace_back("without", at::zeros({3}).requires_grad_());
  EXPECT_NEAR(optim::device_norm(parameters), grad_norm(parameters), 1e-9);
  EXPECT_EQ(optim::device_norm({{"without", at::zeros({3})}}), 0);
}

}  // namespace clip_test
}  // namespace lockstep
