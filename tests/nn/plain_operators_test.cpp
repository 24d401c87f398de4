// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/plain_operators.h"

#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <thread>

#include "lockstep/nn/activation.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear_relu.h"
#include "lockstep/nn/norm_act.h"
#include "lockstep/tensor/random.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
namespace plain_operators_test {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The result and the gradient of the input.
std::vector<at::Tensor> step(const std::function<at::Tensor(const at::Tensor&)>& layer, const at::Tensor& input) {
  const at::Tensor x = input.detach().clone(input.suggest_memory_format()).requires_grad_();
  const at::Tensor out = layer(x);
  // Not all the same, which a norm takes away.
  out.backward(at::arange(out.numel(), out.options()).remainder(7).view(out.sizes()));
  return {out, x.grad()};
}

/// By the layer's kernel, then by libtorch's operators; both have to be what they say, and to agree.
void expect_both(const char* kernel, const std::function<at::Tensor(const at::Tensor&)>& layer,
                 const at::Tensor& input) {
  const std::vector<at::Tensor> ours = step(layer, input);
  EXPECT_THAT(ours[0].grad_fn()->name(), HasSubstr(kernel));
  std::vector<at::Tensor> plain;
  {
    const PlainOperators guard;
    const PlainOperators inner;
    plain = step(layer, input);
  }
  EXPECT_THAT(plain[0].grad_fn()->name(), Not(AnyOf(HasSubstr("lockstep"), HasSubstr(kernel))));
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT(difference(plain[i], ours[i]), 1e-5) << kernel << i;
  EXPECT_THAT(step(layer, input)[0].grad_fn()->name(), HasSubstr(kernel)) << "the guard is gone";
}

TEST(PlainOperators, KernelsOfLayersRestAndTheirValuesStay) {
  seed_all(1);
  LayerNorm norm{torch::nn::LayerNormOptions({64})};
  expect_both(
      "LayerNormFunction", [&](const at::Tensor& x) { return norm(x); }, at::randn({64, 64}));
  LinearReLU linear{torch::nn::LinearOptions(32, 48)};
  expect_both(
      "LinearReLUFunction", [&](const at::Tensor& x) { return linear(x); }, at::randn({16, 32}));
  ReLU relu;
  expect_both(
      "ReLUFunction", [&](const at::Tensor& x) { return relu(x); }, at::randn({1 << 18}));
  BatchNormReLU2d both{torch::nn::BatchNormOptions(16)};
  expect_both(
      "FusedNormAct", [&](const at::Tensor& x) { return both(x); },
      at::randn({4, 16, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(PlainOperators, ConvolutionsAreThoseOfLibtorch) {
  seed_all(2);
  Conv2d conv{torch::nn::Conv2dOptions(64, 64, 3).padding(1)};
  const at::Tensor x = at::randn({8, 64, 40, 40}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor ours = conv(x);
  const PlainOperators guard;
  const at::Tensor plain = conv(x);
  EXPECT_THAT(plain.grad_fn()->name(), Not(HasSubstr("Winograd")));
  EXPECT_LT(difference(plain, ours), 1e-5);
}

TEST(PlainOperators, HoldForTheirThreadOnly) {
  EXPECT_FALSE(uses_plain_operators());
  const PlainOperators guard;
  EXPECT_TRUE(uses_plain_operators());
  bool elsewhere = true;
  std::thread([&] { elsewhere = uses_plain_operators(); }).join();
  EXPECT_FALSE(elsewhere);
}

}  // namespace plain_operators_test
}  // namespace lockstep::nn
