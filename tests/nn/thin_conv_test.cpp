// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/thin_conv.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "lockstep/tensor/random.h"
#include "lockstep/tensor/torch_version.h"

namespace lockstep::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::int64_t images, channels, height, width;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.images << "x" << c.channels << "x" << c.height << "x" << c.width;
}

ThinConv2d layer_of(std::int64_t channels) {
  seed_all(3);
  ThinConv2d layer(channels);
  layer->weight.set_data(layer->weight.detach().to(at::TensorOptions(), false, false, at::MemoryFormat::ChannelsLast));
  return layer;
}

at::Tensor images_of(const Case& c) {
  seed_all(9);
  return at::rand({c.images, 1, c.height, c.width});
}

/// The largest difference beside the largest value.
double difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wanted = expected.detach().to(at::kDouble);
  return ((found.detach().to(at::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
}

class ThinConvTest : public testing::TestWithParam<Case> {};

TEST_P(ThinConvTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const Case c = GetParam();
  ThinConv2d layer = layer_of(c.channels);
  const at::Tensor images = images_of(c);
  const at::Tensor out = layer->forward(images);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("ThinConvolution"));
  EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
  const at::Tensor weight = layer->weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor bias = layer->bias.detach().to(at::kDouble).requires_grad_();
  const at::Tensor expected = at::conv2d(images.to(at::kDouble), weight, bias, 1, 1);
  EXPECT_LT(difference(out, expected), 1e-6);
  const at::Tensor grad = at::randn(out.sizes());
  out.backward(grad);
  expected.backward(grad.to(at::kDouble));
  EXPECT_LT(difference(layer->weight.grad(), weight.grad()), 1e-5);
  EXPECT_LT(difference(layer->bias.grad(), bias.grad()), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ThinConvTest,
                         testing::Values(Case{3, 8, 5, 7}, Case{2, 32, 12, 16}, Case{1, 24, 1, 1}, Case{2, 40, 3, 2}));

TEST(ThinConv, UnderAutocastComputesInBfloat16) {
  const Case c{2, 16, 9, 10};
  ThinConv2d layer = layer_of(c.channels);
  const at::Tensor exact = layer->forward(images_of(c));
  const tensor::AutocastState before = tensor::autocast_state(at::kCPU);
  tensor::set_autocast_state(at::kCPU, {.enabled = true, .dtype = at::kBFloat16, .weight_cache = false});
  const at::Tensor out = layer->forward(images_of(c));
  tensor::set_autocast_state(at::kCPU, before);
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(out, exact), 2e-2);
  out.sum().backward();
  EXPECT_EQ(layer->weight.grad().scalar_type(), at::kFloat);
}

TEST(ThinConv, HasTheSameBitsOnAnyNumberOfThreads) {
  const Case c{5, 16, 9, 10};
  ThinConv2d layer = layer_of(c.channels);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = layer->forward(images_of(c));
  at::set_num_threads(2);
  const at::Tensor two = layer->forward(images_of(c));
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, two));
}

TEST(ThinConv, AnInputThatNeedsAGradientAndTheOtherLayoutAreLibtorchs) {
  const Case c{2, 8, 4, 4};
  ThinConv2d layer = layer_of(c.channels);
  const at::Tensor images = images_of(c).requires_grad_();
  layer->forward(images).sum().backward();
  EXPECT_TRUE(images.grad().defined());
  ThinConv2d plain(8);
  EXPECT_THAT(plain->forward(images_of(c)).grad_fn()->name(), Not(HasSubstr("ThinConvolution")));
}

TEST(ThinConv, TakesTheParametersOfTheConvolutionItReplaces) {
  const torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 8, 3).padding(1));
  ASSERT_TRUE(ThinConv2dImpl::is_thin(*conv));
  const ThinConv2d layer(std::make_shared<ThinConv2dImpl>(*conv));
  EXPECT_TRUE(layer->named_parameters()["weight"].is_same(conv->weight));
  EXPECT_TRUE(layer->named_parameters()["bias"].is_same(conv->bias));
}

TEST(ThinConv, IsForThreeByThreeFromOneChannelOnly) {
  using Options = torch::nn::Conv2dOptions;
  EXPECT_FALSE(ThinConv2dImpl::is_thin(torch::nn::Conv2dImpl(Options(2, 8, 3).padding(1))));
  EXPECT_FALSE(ThinConv2dImpl::is_thin(torch::nn::Conv2dImpl(Options(1, 8, 5).padding(1))));
  EXPECT_FALSE(ThinConv2dImpl::is_thin(torch::nn::Conv2dImpl(Options(1, 8, 3))));
  EXPECT_FALSE(ThinConv2dImpl::is_thin(torch::nn::Conv2dImpl(Options(1, 8, 3).padding(1).stride(2))));
  EXPECT_FALSE(ThinConv2dImpl::is_thin(torch::nn::Conv2dImpl(Options(1, 8, 3).padding(1).bias(false))));
  EXPECT_FALSE(ThinConv2dImpl::is_thin(torch::nn::Conv2dImpl(Options(1, 9, 3).padding(1))));
}

}  // namespace
}  // namespace lockstep::nn
