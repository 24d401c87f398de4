// SPDX-License-Identifier: Apache-2.0
// Lockstep's kernels compared with libtorch's.
#include <ATen/ops/conv2d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <limits>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/resize.h"
#include "nn/conv/conv_table.h"
#include "nn/conv/direct.h"
#include "nn/layer_testing.h"
#include "nn/vector/kernel_table.h"

namespace lockstep::nn {
namespace kernels_test {

using ::testing::HasSubstr;
using Options = torch::nn::Conv2dOptions;

// Convolutions as matrix products (nn/conv/direct.h): any kernel, stride, padding and dilation.

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

struct Case {
  std::int64_t images, in, out, height, width;
  std::vector<std::int64_t> kernel, stride, padding, dilation;
  bool bias = false;
  std::int64_t groups = 1;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.images << " images of " << c.height << "x" << c.width << ", " << c.in << " to " << c.out << ", kernel "
       << testing::PrintToString(c.kernel) << ", stride " << testing::PrintToString(c.stride) << ", padding "
       << testing::PrintToString(c.padding) << ", dilation " << testing::PrintToString(c.dilation);
}

/// Weights, images and gradients are bfloat16 numbers, so only results are rounded.
at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16).to(at::kFloat); }

Conv2d layer_of(const Case& c, bool last = true) {
  seed_all(3);
  const auto pair = [](const std::vector<std::int64_t>& sizes) {
    return torch::ExpandingArray<2>(at::IntArrayRef(sizes));
  };
  Conv2d layer(Options(c.in, c.out, pair(c.kernel))
                   .stride(pair(c.stride))
                   .padding(pair(c.padding))
                   .dilation(pair(c.dilation))
                   .groups(c.groups)
                   .bias(c.bias));
  const at::Tensor weight = drawn(layer->weight.sizes());
  layer->weight.set_data(last ? weight.contiguous(kChannelsLast) : weight);
  if (c.bias) layer->bias.set_data(drawn({c.out}));
  return layer;
}

/// The result, and the gradients of images, weight and bias (if any).
std::vector<at::Tensor> pass_of(Conv2d& layer, const Case& c, at::ScalarType type) {
  seed_all(9);
  const at::Tensor x = drawn({c.images, c.in, c.height, c.width}).to(type).contiguous(kChannelsLast).requires_grad_();
  layer->zero_grad();
  const at::Tensor out = layer->forward(x);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr(c.groups > 1 ? "DepthwiseConvolution" : "DirectConvolution"));
  EXPECT_TRUE(out.is_contiguous(kChannelsLast));
  EXPECT_EQ(out.scalar_type(), type);
  out.backward(drawn(out.sizes()).to(type));
  EXPECT_EQ(layer->weight.grad().strides(), layer->weight.strides());
  EXPECT_EQ(x.grad().scalar_type(), type);
  std::vector<at::Tensor> all = {out, x.grad(), layer->weight.grad().clone()};
  if (c.bias) all.push_back(layer->bias.grad().clone());
  return all;
}

std::vector<at::Tensor> exact_pass_of(const Conv2d& layer, const Case& c) {
  seed_all(9);
  const at::Tensor x = drawn({c.images, c.in, c.height, c.width}).to(at::kDouble).requires_grad_();
  const at::Tensor weight = layer->weight.detach().to(at::kDouble).requires_grad_();
  at::Tensor bias;
  if (c.bias) bias = layer->bias.detach().to(at::kDouble).requires_grad_();
  const at::Tensor out = at::conv2d(x, weight, bias, c.stride, c.padding, c.dilation, c.groups);
  out.backward(drawn(out.sizes()).to(at::kDouble));
  std::vector<at::Tensor> all = {out, x.grad(), weight.grad()};
  if (c.bias) all.push_back(bias.grad());
  return all;
}

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& exact, double tolerance) {
  const char* const names[] = {"forward", "gradient of the input", "of the weights", "of the bias"};
  ASSERT_EQ(found.size(), exact.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(difference(found[i], exact[i]), tolerance) << names[i];
}

class DirectConvTest : public testing::TestWithParam<Case> {};

TEST_P(DirectConvTest, ForwardAndGradientsAreLibtorchsInDouble) {
  for (const bool last : {true, false}) {
    if (!last && GetParam().in == 1) continue;  // with one channel, both layouts are the same
    Conv2d layer = layer_of(GetParam(), last);
    expect_near(pass_of(layer, GetParam(), at::kFloat), exact_pass_of(layer, GetParam()), 2e-6);
  }
}

TEST_P(DirectConvTest, InBfloat16OnlyResultsAreRounded) {
  if (GetParam().groups == 1 && !direct_serves(true, conv_processor()))
    GTEST_SKIP() << "this processor leaves bfloat16 to libtorch";
  Conv2d layer = layer_of(GetParam());
  const Autocasting autocast;
  const std::vector<at::Tensor> found = pass_of(layer, GetParam(), at::kBFloat16);
  const std::vector<at::Tensor> exact = exact_pass_of(layer, GetParam());
  expect_near(found, exact, 1.0 / 256);
  EXPECT_LT(difference(found[2], exact[2]), 2e-6) << "the gradient of the weights is not rounded";
}

TEST_P(DirectConvTest, HasTheSameBitsOnAnyNumberOfThreads) {
  Conv2d layer = layer_of(GetParam());
  EXPECT_TRUE(same_on_any_threads([&] { return pass_of(layer, GetParam(), at::kFloat); }));
}

// Channels: odd numbers, fewer than a vector, more than a block. Taps outside the image on all sides; strides that skip
// pixels; the pyramid's dilations, which span the whole image; one pixel; a kernel larger than the image.
INSTANTIATE_TEST_SUITE_P(Shapes, DirectConvTest,
                         testing::Values(Case{2, 32, 64, 9, 11, {1, 1}, {1, 1}, {0, 0}, {1, 1}, true},
                                         Case{2, 48, 24, 9, 7, {1, 1}, {2, 2}, {0, 0}, {1, 1}},
                                         Case{3, 3, 20, 17, 16, {7, 7}, {2, 2}, {3, 3}, {1, 1}, true},
                                         Case{2, 33, 35, 8, 9, {3, 3}, {1, 1}, {1, 1}, {2, 2}, true},
                                         Case{2, 16, 130, 10, 9, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
                                         Case{1, 160, 32, 9, 9, {3, 3}, {1, 1}, {6, 6}, {6, 6}},
                                         Case{2, 80, 112, 5, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
                                         Case{4, 288, 16, 4, 4, {3, 3}, {1, 1}, {2, 2}, {2, 2}},
                                         Case{5, 64, 48, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, true},
                                         Case{2, 16, 16, 7, 12, {3, 5}, {2, 1}, {0, 3}, {1, 2}, true},
                                         Case{2, 8, 2, 3, 4, {5, 5}, {1, 1}, {2, 2}, {1, 1}, true},
                                         Case{40, 16, 16, 13, 5, {2, 2}, {2, 2}, {0, 0}, {1, 1}, true}));

INSTANTIATE_TEST_SUITE_P(OfEachChannel, DirectConvTest,
                         testing::Values(Case{3, 96, 96, 10, 11, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, 96},
                                         Case{2, 24, 24, 9, 7, {5, 5}, {1, 1}, {2, 2}, {1, 1}, true, 24},
                                         Case{1, 8, 8, 6, 8, {3, 3}, {1, 1}, {2, 2}, {2, 2}, true, 8}));

TEST(DirectConv, WhatIsOutsideIsNotMultiplied) {
  const DirectAxis axis{.size = 9, .kernel = 3, .stride = 1, .padding = 6, .dilation = 6};
  const DirectPlan plan = direct_forward_plan({.images = 1, .rows = axis, .columns = axis, .in = 16, .out = 16});
  std::int64_t taps = 0;
  std::size_t pixels = 0;
  for (const DirectClass& one : plan.classes) {
    pixels += one.pixels.size();
    for (const DirectRun& run : one.runs) taps += run.taps * static_cast<std::int64_t>(one.pixels.size());
  }
  EXPECT_EQ(pixels, 81U);
  EXPECT_EQ(taps, 15 * 15) << "of 27 x 27 with the zeros around the image";
}

TEST(DirectConv, WhatIsNoNumberIsNoneWhereItsPixelsAre) {
  const Case c{2, 16, 16, 8, 8, {3, 3}, {1, 1}, {2, 2}, {2, 2}};
  Conv2d layer = layer_of(c);
  at::Tensor images = at::randn({2, 16, 8, 8}).contiguous(kChannelsLast);
  images[1][5][4][4] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor bad = layer->forward(images).isnan();
  EXPECT_FALSE(bad[0].any().item<bool>());
  EXPECT_EQ(bad[1][0].sum().item<std::int64_t>(), 9);
  EXPECT_TRUE(bad[1][0][2][6].item<bool>());
}

TEST(DirectConv, APartOfTheChannelsIsAnInputToo) {
  const Case c{2, 16, 24, 6, 6, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
  Conv2d layer = layer_of(c);
  const at::Tensor wide = at::randn({2, 32, 6, 6}).contiguous(kChannelsLast).requires_grad_();
  const at::Tensor out = layer->forward(wide.narrow(1, 16, 16));
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("DirectConvolution"));
  EXPECT_LT(difference(out, at::conv2d(wide.narrow(1, 16, 16), layer->weight)), 1e-6);
  out.sum().backward();
  EXPECT_EQ(wide.grad().narrow(1, 0, 16).abs().max().item<float>(), 0);
  EXPECT_GT(wide.grad().narrow(1, 16, 16).abs().max().item<float>(), 0);
}

TEST(DirectConv, ASecondDerivativeIsRefused) {
  const Case c{2, 16, 16, 6, 6, {1, 1}, {1, 1}, {0, 0}, {1, 1}};
  Conv2d layer = layer_of(c);
  const at::Tensor images = at::randn({2, 16, 6, 6}).contiguous(kChannelsLast).requires_grad_();
  const at::Tensor out = layer->forward(images).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {images}, {}, true, true), UsageError);
}

TEST(KernelTable, LeavesTinyTensorsToLibtorch) {
  EXPECT_FALSE(dropout_is_faster(63));
  EXPECT_TRUE(dropout_is_faster(64));
  EXPECT_FALSE(relu_is_faster(32768));
  EXPECT_TRUE(relu_is_faster(262144));
  EXPECT_FALSE(layer_norm_is_faster(1, 1024));
  EXPECT_FALSE(layer_norm_is_faster(16, 32));
  EXPECT_TRUE(layer_norm_is_faster(16, 100));
  EXPECT_FALSE(cross_entropy_is_faster(1, 36));
  EXPECT_TRUE(cross_entropy_is_faster(16, 4));
}

TEST(KernelTable, LeavesManyRowsOfFewChannelsToLibtorchWhereThereIsNoDropout) {
  EXPECT_FALSE(linear_relu_is_faster({.rows = 512, .channels = 8}));
  EXPECT_TRUE(linear_relu_is_faster({.rows = 512, .channels = 8, .dropout = true}));
  EXPECT_TRUE(linear_relu_is_faster({.rows = 64, .channels = 8}));
  EXPECT_TRUE(linear_relu_is_faster({.rows = 512, .channels = 36}));
}

}  // namespace kernels_test

namespace resize_test {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::int64_t channels;
  std::array<std::int64_t, 2> from, to;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.channels << " channels, " << testing::PrintToString(c.from) << " to " << testing::PrintToString(c.to);
}

/// Images of bfloat16 numbers, so only results are rounded.
at::Tensor images_of(const Case& c, at::ScalarType type) {
  seed_all(2);
  return at::randn({3, c.channels, c.from[0], c.from[1]})
      .to(at::kBFloat16)
      .to(type)
      .contiguous(at::MemoryFormat::ChannelsLast)
      .requires_grad_();
}

std::vector<at::Tensor> backward_of(const at::Tensor& out, const at::Tensor& images) {
  seed_all(5);
  out.backward(at::randn(out.sizes()).to(at::kBFloat16).to(out.scalar_type()));
  return {out.detach(), images.grad()};
}

std::vector<at::Tensor> pass_of(const Case& c, at::ScalarType type, bool align_corners) {
  const at::Tensor images = images_of(c, type);
  const at::Tensor out = resize_bilinear(images, c.to, align_corners);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("BilinearFunction"));
  EXPECT_EQ(out.scalar_type(), type);
  return backward_of(out, images);
}

class ResizeTest : public testing::TestWithParam<Case> {};

TEST_P(ResizeTest, ForwardAndGradientAreLibtorchsInDouble) {
  for (const bool align_corners : {true, false}) {
    const at::Tensor exact_images = images_of(GetParam(), at::kDouble);
    const auto exact = backward_of(at::upsample_bilinear2d(exact_images, GetParam().to, align_corners), exact_images);
    const auto found = pass_of(GetParam(), at::kFloat, align_corners);
    const auto rounded = pass_of(GetParam(), at::kBFloat16, align_corners);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      EXPECT_LT(difference(found[i], exact[i]), 1e-5) << i << ", align_corners " << align_corners;
      EXPECT_LT(difference(rounded[i], exact[i]), 1.0 / 256) << i << ", align_corners " << align_corners;
    }
  }
}

TEST_P(ResizeTest, TheNearestIsLibtorchsBitForBit) {
  const at::Tensor images = images_of(GetParam(), at::kFloat);
  const at::Tensor expected_images = images_of(GetParam(), at::kFloat);
  const at::Tensor out = resize_nearest(images, GetParam().to);
  EXPECT_THAT(out.grad_fn()->name(), HasSubstr("BilinearFunction"));
  const auto found = backward_of(out, images);
  const auto expected = backward_of(at::upsample_nearest2d(expected_images, GetParam().to), expected_images);
  EXPECT_TRUE(at::equal(found[0], expected[0]));
  EXPECT_LT(difference(found[1], expected[1]), 1e-6);
}

TEST_P(ResizeTest, HasTheSameBitsOnAnyNumberOfThreads) {
  EXPECT_TRUE(same_on_any_threads([] { return pass_of(GetParam(), at::kFloat, true); }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ResizeTest,
                         testing::Values(Case{8, {9, 9}, {33, 33}}, Case{24, {5, 7}, {11, 6}}, Case{16, {1, 1}, {4, 3}},
                                         Case{40, {6, 5}, {1, 1}}, Case{16, {8, 8}, {8, 8}}));

TEST(Resize, OtherLayoutsAndChannelsAreLibtorchs) {
  const at::Tensor images = at::randn({2, 8, 5, 5}).requires_grad_();
  const at::Tensor out = resize_bilinear(images, {9, 9}, true);
  EXPECT_THAT(out.grad_fn()->name(), Not(HasSubstr("BilinearFunction")));
  EXPECT_TRUE(at::equal(out, at::upsample_bilinear2d(images, {9, 9}, true)));
  const at::Tensor few = at::randn({2, 6, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_TRUE(at::equal(resize_bilinear(few, {3, 9}, false), at::upsample_bilinear2d(few, {3, 9}, false)));
}

TEST(Resize, ASecondDerivativeIsRefused) {
  const at::Tensor images = images_of({8, {4, 4}, {8, 8}}, at::kFloat);
  const at::Tensor out = resize_bilinear(images, {8, 8}, true).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {images}, {}, true, true), UsageError);
}

}  // namespace resize_test
}  // namespace lockstep::nn
