// SPDX-License-Identifier: Apache-2.0
// Convolutions, and which kernel is chosen.
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/nn/conv.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/torch_version.h"
#include "nn/conv/conv_table.h"

namespace lockstep::nn {
namespace conv_test {

using ::testing::HasSubstr;
using ::testing::Not;
using Options = torch::nn::Conv2dOptions;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

/// Runs its scope in bf16 precision, like Trainer.
class InBfloat16 {
 public:
  InBfloat16() {
    tensor::set_autocast_state(at::kCPU, {.enabled = true, .dtype = at::kBFloat16, .weight_cache = false});
  }
  InBfloat16(const InBfloat16&) = delete;
  InBfloat16& operator=(const InBfloat16&) = delete;
  ~InBfloat16() { tensor::set_autocast_state(at::kCPU, before_); }

 private:
  tensor::AutocastState before_ = tensor::autocast_state(at::kCPU);
};

struct Case {
  std::int64_t images, in, out, height, width;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.images << " images, " << c.in << " to " << c.out << " channels, " << c.height << "x" << c.width;
}

Conv2d layer_of(const Case& c, bool bias = true) {
  seed_all(3);
  Conv2d layer(Options(c.in, c.out, 3).padding(1).bias(bias));
  layer->weight.set_data(layer->weight.detach().to(at::TensorOptions(), false, false, kChannelsLast));
  return layer;
}

at::Tensor images_of(const Case& c) {
  seed_all(9);
  return at::randn({c.images, c.in, c.height, c.width}).contiguous(kChannelsLast);
}

/// The largest difference relative to the largest value.
double difference(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor wanted = expected.detach().to(at::kDouble);
  return ((found.detach().to(at::kDouble) - wanted).abs().max() / wanted.abs().max()).item<double>();
}

/// The results of a forward and a backward pass.
struct Pass {
  at::Tensor out, images, weight, bias;
};

Pass pass_of(Conv2d& layer, const at::Tensor& images, const at::Tensor& grad) {
  layer->zero_grad();
  const at::Tensor x = images.detach().clone().requires_grad_(images.size(1) > 1);
  const at::Tensor out = layer->forward(x);
  out.backward(grad.to(out.scalar_type()));
  return {.out = out,
          .images = x.grad(),
          .weight = layer->weight.grad().clone(),
          .bias = layer->bias.defined() ? layer->bias.grad().clone() : at::Tensor()};
}

Pass exact_pass_of(const Conv2d& layer, const at::Tensor& images, const at::Tensor& grad) {
  const at::Tensor x = images.to(at::kDouble).requires_grad_();
  const at::Tensor weight = layer->weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor bias = layer->bias.defined() ? layer->bias.detach().to(at::kDouble).requires_grad_() : at::Tensor();
  const at::Tensor out = at::conv2d(x, weight, bias, 1, 1);
  out.backward(grad.to(at::kDouble));
  return {.out = out, .images = x.grad(), .weight = weight.grad(), .bias = bias.defined() ? bias.grad() : at::Tensor()};
}

void expect_near(const Pass& found, const Pass& exact, double tolerance) {
  EXPECT_LT(difference(found.out, exact.out), tolerance);
  EXPECT_LT(difference(found.weight, exact.weight), tolerance);
  if (found.images.defined()) {
    EXPECT_LT(difference(found.images, exact.images), tolerance);
  }
  if (found.bias.defined()) {
    EXPECT_LT(difference(found.bias, exact.bias), tolerance);
  }
}

bool has_kernel(const Options& options) { return Conv2dImpl::has_kernel(torch::nn::Conv2dImpl(options)); }

class WinogradTest : public testing::TestWithParam<Case> {};

TEST_P(WinogradTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const Case c = GetParam();
  for (const bool bias : {true, false}) {
    Conv2d layer = layer_of(c, bias);
    const at::Tensor images = images_of(c);
    const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width});
    const Pass found = pass_of(layer, images, grad);
    EXPECT_THAT(found.out.grad_fn()->name(), HasSubstr("WinogradConvolution"));
    EXPECT_TRUE(found.out.is_contiguous(kChannelsLast));
    EXPECT_EQ(found.weight.strides(), layer->weight.strides());
    expect_near(found, exact_pass_of(layer, images, grad), 4e-6);
  }
}

TEST_P(WinogradTest, InBfloat16TheErrorIsThatOfItsRounding) {
  if (!conv_processor().bfloat16_vectors || conv_processor().bfloat16_tiles) {
    GTEST_SKIP() << "this processor leaves bfloat16 to libtorch: it has no vector products of it, or has matrix units";
  }
  const Case c = GetParam();
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c);
  const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width});
  const InBfloat16 autocast;
  const Pass found = pass_of(layer, images.to(at::kBFloat16), grad);
  EXPECT_THAT(found.out.grad_fn()->name(), HasSubstr("WinogradConvolution"));
  EXPECT_EQ(found.out.scalar_type(), at::kBFloat16);
  EXPECT_EQ(found.images.scalar_type(), at::kBFloat16);
  EXPECT_EQ(found.weight.scalar_type(), at::kFloat);
  // 2^-8 is the spacing of bfloat16; a result is rounded once, and its terms before that.
  expect_near(found, exact_pass_of(layer, images.to(at::kBFloat16), grad.to(at::kBFloat16)), 1.0 / 128);
}

// Odd and even sizes, tiles that end a block in the middle of a row, channels that do not fill a block of 64, and one
// image with more tiles in a row than a block has.
INSTANTIATE_TEST_SUITE_P(Shapes, WinogradTest,
                         testing::Values(Case{8, 32, 32, 16, 16}, Case{9, 48, 32, 15, 17}, Case{3, 32, 80, 27, 26},
                                         Case{70, 64, 96, 5, 6}, Case{1, 32, 64, 31, 70}, Case{1, 32, 32, 7, 300}));

class LargeTilesTest : public testing::TestWithParam<Case> {};

TEST_P(LargeTilesTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const Case c = GetParam();
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c);
  const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width});
  const Pass found = pass_of(layer, images, grad);
  EXPECT_THAT(found.out.grad_fn()->name(), HasSubstr("WinogradConvolution"));
  // Rounding grows with the number of channels, and differs between processors: 3.2e-6 on x86-64, 4.5e-6 on aarch64.
  expect_near(found, exact_pass_of(layer, images, grad), c.in > 100 ? 6e-6 : 4e-6);
}

// Shapes that do not suit tiles of 2x2 results: few channels, few pixels, many channels. Sizes that leave 1, 2 and 3
// rows and columns for the last tiles.
INSTANTIATE_TEST_SUITE_P(Shapes, LargeTilesTest,
                         testing::Values(Case{8, 16, 32, 13, 18}, Case{4, 32, 16, 15, 13}, Case{4, 48, 64, 16, 16},
                                         Case{4, 320, 272, 14, 15}, Case{1, 16, 16, 7, 300}));

/// libtorch's direct convolution on the same numbers in bfloat16.
Pass direct_pass_of(const Conv2d& layer, const at::Tensor& images, const at::Tensor& grad) {
  const at::Tensor x = images.detach().clone().requires_grad_();
  const at::Tensor weight = layer->weight.detach().to(at::kBFloat16).requires_grad_();
  const at::Tensor bias = layer->bias.detach().to(at::kBFloat16).requires_grad_();
  const at::Tensor out = at::conv2d(x, weight, bias, 1, 1);
  out.backward(grad);
  return {.out = out, .images = x.grad(), .weight = weight.grad(), .bias = bias.grad()};
}

/// The norm of the difference relative to the norm of `exact`.
double error_of(const at::Tensor& found, const at::Tensor& exact) {
  return ((found.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
}

/// A convolution whose inputs have this mean (their standard deviation is 1) and whose weights are bfloat16 numbers:
/// the direct kernel rounds only its results.
struct Means {
  double input, grad;
  double limit;            ///< for the error of forward and of the weight gradient, relative to the direct kernel's
  bool zero_sums = false;  ///< filters with sum 0, which remove the mean from the results
};

class WinogradMeanTest : public testing::TestWithParam<Means> {};

void PrintTo(const Means& means, std::ostream* out) {
  *out << "an input of mean " << means.input << " and a gradient of mean " << means.grad
       << (means.zero_sums ? ", filters of sum 0" : "");
}

TEST_P(WinogradMeanTest, InBfloat16TheErrorBesideTheDirectOneIsBounded) {
  if (!conv_processor().bfloat16_vectors || conv_processor().bfloat16_tiles) {
    GTEST_SKIP() << "this processor leaves bfloat16 to libtorch: it has no vector products of it, or has matrix units";
  }
  for (const Case c : {Case{8, 64, 64, 30, 40}, Case{70, 64, 96, 5, 6}}) {
    Conv2d layer = layer_of(c);
    const at::Tensor weight = layer->weight.detach();
    const at::Tensor drawn = GetParam().zero_sums ? weight - weight.mean({2, 3}, true) : weight;
    layer->weight.set_data(drawn.to(at::kBFloat16).to(at::kFloat));
    layer->bias.set_data(layer->bias.detach().to(at::kBFloat16).to(at::kFloat));
    const at::Tensor images = (images_of(c) + GetParam().input).to(at::kBFloat16);
    const at::Tensor grad =
        (at::randn({c.images, c.out, c.height, c.width}) + GetParam().grad).contiguous(kChannelsLast).to(at::kBFloat16);
    const Pass exact = exact_pass_of(layer, images, grad);
    const Pass direct = direct_pass_of(layer, images, grad);
    const InBfloat16 autocast;
    const Pass found = pass_of(layer, images, grad);
    EXPECT_THAT(found.out.grad_fn()->name(), HasSubstr("WinogradConvolution"));
    const auto compare = [&](const std::string& what, at::Tensor Pass::*result, double limit) {
      const double ours = error_of(found.*result, exact.*result);
      const double theirs = error_of(direct.*result, exact.*result);
      std::cout << testing::PrintToString(GetParam()) << ", " << testing::PrintToString(c) << ", " << what << ": "
                << ours << " / " << theirs << " = " << ours / theirs << "\n";
      EXPECT_LT(ours, limit * theirs) << what;
    };
    compare("forward", &Pass::out, GetParam().limit);
    compare("gradient of the input", &Pass::images, 3);
    compare("gradient of the weights", &Pass::weight, GetParam().limit);
  }
}

// The error of libtorch's direct convolution is 4.2e-7 on x86-64, and half of that on aarch64.
TEST(Conv, InFloat32TheErrorOfLargeTilesIsAFewTimesTheDirectOnes) {
  const auto usual = [](double direct) { return std::max(direct, 4e-7); };
  for (const double mean : {0.0, 10.0}) {
    const Case c{8, 64, 64, 15, 40};
    Conv2d layer = layer_of(c, false);
    const at::Tensor images = images_of(c) + mean;
    const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width}).contiguous(kChannelsLast);
    const Pass exact = exact_pass_of(layer, images, grad);
    const at::Tensor x = images.detach().clone().requires_grad_();
    const at::Tensor weight = layer->weight.detach().clone().requires_grad_();
    const at::Tensor direct = at::conv2d(x, weight, {}, 1, 1);
    direct.backward(grad);
    const Pass found = pass_of(layer, images, grad);
    EXPECT_THAT(found.out.grad_fn()->name(), HasSubstr("WinogradConvolution"));
    EXPECT_LT(error_of(found.out, exact.out), 3 * usual(error_of(direct.detach(), exact.out))) << mean;
    EXPECT_LT(error_of(found.images, exact.images), 3 * usual(error_of(x.grad(), exact.images))) << mean;
    EXPECT_LT(error_of(found.weight, exact.weight), 5 * error_of(weight.grad(), exact.weight)) << mean;
  }
}

INSTANTIATE_TEST_SUITE_P(Means, WinogradMeanTest,
                         testing::Values(Means{0, 0, 3}, Means{0.9, 0, 3}, Means{10, 0, 1.3}, Means{-10, 0, 1.3},
                                         Means{10, 10, 1.3}, Means{10, 0, 1.6, true}));

TEST(Conv, AtALargeMeanWhatIsNoNumberIsNoneWhereItsPixelsAre) {
  const Case c{4, 32, 32, 24, 24};
  Conv2d layer = layer_of(c);
  at::Tensor images = images_of(c) + 10;
  images[1][5].fill_(std::numeric_limits<float>::quiet_NaN());
  images[2][6][10][10] = std::numeric_limits<float>::infinity();
  const InBfloat16 autocast;
  const at::Tensor finite = layer->forward(images.to(at::kBFloat16)).isfinite();
  EXPECT_FALSE(finite[1].any().item<bool>());
  EXPECT_FALSE(finite[2].slice(1, 9, 12).slice(2, 9, 12).any().item<bool>());
  EXPECT_TRUE(finite[0].all().item<bool>());
  EXPECT_TRUE(finite[3].all().item<bool>());
}

TEST(Conv, WinogradInBfloat16AtALargeMeanHasTheSameBitsOnAnyNumberOfThreads) {
  const Case c{5, 32, 48, 25, 26};
  Conv2d layer = layer_of(c);
  const at::Tensor images = (images_of(c) + 10).to(at::kBFloat16);
  const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width});
  const InBfloat16 autocast;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Pass one = pass_of(layer, images, grad);
  at::set_num_threads(3);
  const Pass more = pass_of(layer, images, grad);
  at::set_num_threads(threads);
  if (one.out.grad_fn()->name().find("WinogradConvolution") == std::string::npos) {
    GTEST_SKIP() << "this processor leaves bfloat16 to libtorch";
  }
  EXPECT_TRUE(at::equal(one.out, more.out));
  EXPECT_TRUE(at::equal(one.images, more.images));
  EXPECT_TRUE(at::equal(one.weight, more.weight));
}

TEST(Conv, WinogradHasTheSameBitsOnAnyNumberOfThreads) {
  const Case c{5, 32, 48, 25, 26};
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c);
  const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Pass one = pass_of(layer, images, grad);
  for (const int count : {2, 3}) {
    at::set_num_threads(count);
    const Pass more = pass_of(layer, images, grad);
    EXPECT_TRUE(at::equal(one.out, more.out));
    EXPECT_TRUE(at::equal(one.images, more.images));
    EXPECT_TRUE(at::equal(one.weight, more.weight));
    EXPECT_TRUE(at::equal(one.bias, more.bias));
  }
  at::set_num_threads(threads);
}

TEST(Conv, WhatIsNoNumberIsNoneWhereItsPixelsAre) {
  const Case c{4, 32, 32, 24, 24};
  Conv2d layer = layer_of(c);
  at::Tensor images = images_of(c);
  images[1][5][10][10] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor bad = layer->forward(images).isnan();
  EXPECT_TRUE(bad[1].slice(1, 9, 12).slice(2, 9, 12).all().item<bool>());
  EXPECT_FALSE(bad[0].any().item<bool>());
}

TEST(Conv, WhatIsNotFiniteSpreadsOverTheTilesThatItTouchesAndLargeNumbersDoNot) {  // as promised in the header
  const Case c{1, 32, 32, 24, 24};
  Conv2d layer = layer_of(c);
  for (const std::int64_t at : {8, 9, 10, 11}) {
    at::Tensor images = images_of(c);
    images[0][5][at][at] = std::numeric_limits<float>::infinity();
    const at::Tensor bad = layer->forward(images)[0].isfinite().logical_not().any(0);  // [H, W]
    EXPECT_TRUE(bad.slice(0, at - 1, at + 2).slice(1, at - 1, at + 2).all().item<bool>());
    EXPECT_LE(bad.sum().item<int>(), 64);
    images[0][5][at][at] = 1e36F;
    const at::Tensor exact =
        at::conv2d(images.to(at::kDouble), layer->weight.to(at::kDouble), layer->bias.to(at::kDouble), 1, 1);
    EXPECT_LT(difference(layer->forward(images), exact), 1e-5) << at;
  }
}

TEST(Conv, ASecondDerivativeThroughAKernelIsRefused) {
  const Case c{8, 32, 32, 16, 16};
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c).requires_grad_();
  const at::Tensor out = layer->forward(images).sum();
  EXPECT_THROW((void)torch::autograd::grad({out}, {images}, {}, true, true), UsageError);
}

TEST(Conv, WhatHasNoKernelIsLibtorchsBitForBit) {
  struct Left {
    Options options;
    std::int64_t in;
    at::MemoryFormat layout;
  };
  const std::vector<Left> all = {{Options(32, 32, 3).padding(1), 32, at::MemoryFormat::Contiguous},
                                 {Options(32, 32, 3).padding(torch::kSame), 32, kChannelsLast},
                                 {Options(32, 32, 3).padding(1).groups(4), 32, kChannelsLast},
                                 {Options(12, 12, 3).padding(1).groups(12), 12, kChannelsLast},
                                 {Options(1, 9, 3).padding(1), 1, kChannelsLast}};
  for (const Left& left : all) {
    seed_all(5);
    Conv2d layer(left.options);
    seed_all(5);
    torch::nn::Conv2d expected(left.options);
    EXPECT_TRUE(at::equal(layer->weight, expected->weight)) << *layer;
    const at::Tensor images = at::rand({8, left.in, 32, 32}).contiguous(left.layout).requires_grad_();
    const at::Tensor out = layer->forward(images);
    EXPECT_THAT(out.grad_fn()->name(), Not(HasSubstr("WinogradConvolution"))) << *layer;
    EXPECT_TRUE(at::equal(out, expected->forward(images))) << *layer;
  }
}

/// The result's type is bfloat16 and its error is bfloat16's rounding, on every processor. On processors without
/// bfloat16 products, libtorch's own convolutions take thirty times as long in bfloat16 as in float32.
TEST(Conv, InBfloat16IsNotManyTimesSlowerThanInFloat32) {
  const Case shape{.images = 4, .in = 64, .out = 64, .height = 24, .width = 40};
  Conv2d layer = layer_of(shape);
  const at::Tensor images = at::randn({4, 64, 24, 40}).contiguous(kChannelsLast);
  const auto ms = [](auto&& run) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  at::Tensor exact;
  at::Tensor rounded;
  double float_ms = std::numeric_limits<double>::infinity();
  double bfloat16_ms = float_ms;
  for (int i = 0; i < 8; ++i) {
    float_ms = std::min(float_ms, ms([&] { exact = layer(images); }));
    bfloat16_ms = std::min(bfloat16_ms, ms([&] {
                             const InBfloat16 autocast;
                             rounded = layer(images);
                             rounded.sum().backward();
                           }));
  }
  EXPECT_EQ(rounded.scalar_type(), at::kBFloat16);
  EXPECT_EQ(layer->weight.grad().scalar_type(), at::kFloat);
  EXPECT_LT((rounded.to(at::kFloat) - exact).norm().item<double>(), 1e-2 * exact.norm().item<double>());
  EXPECT_LT(bfloat16_ms, 12 * float_ms) << "forward and backward against a forward in float32";
}

TEST(Conv, OtherPaddingThanZerosIsRefused) {
  EXPECT_THROW((void)Conv2d(Options(8, 8, 3).padding(1).padding_mode(torch::kReflect)), UsageError);
}

TEST(Conv, TakesTheParametersOfTheConvolutionItReplaces) {
  const torch::nn::Conv2d conv(Options(1, 8, 3).padding(1));
  const Conv2d layer(std::make_shared<Conv2dImpl>(*conv));
  EXPECT_TRUE(layer->named_parameters()["weight"].is_same(conv->weight));
  EXPECT_TRUE(layer->named_parameters()["bias"].is_same(conv->bias));
  conv->weight.set_requires_grad(false);
  EXPECT_FALSE(Conv2dImpl(*conv).weight.requires_grad()) << "frozen stays frozen";
  const torch::nn::Conv2d bare(Options(32, 32, 3).padding(1).bias(false));
  const Conv2d without(std::make_shared<Conv2dImpl>(*bare));
  EXPECT_EQ(without->named_parameters().keys(), bare->named_parameters().keys());
}

TEST(Conv, KernelsExistForOneGroupOrEachChannelAndZerosAroundTheImage) {
  EXPECT_TRUE(has_kernel(Options(1, 8, 3).padding(1)));
  EXPECT_TRUE(has_kernel(Options(64, 32, 3).padding(1).bias(false)));
  EXPECT_TRUE(has_kernel(Options(3, 64, 7).padding(3).stride(2).bias(false)));
  EXPECT_TRUE(has_kernel(Options(8, 8, 3).padding(1).groups(8)));
  EXPECT_FALSE(has_kernel(Options(8, 8, 3).padding(1).groups(4)));
  EXPECT_FALSE(has_kernel(Options(8, 16, 3).padding(1).groups(8)));
  EXPECT_FALSE(has_kernel(Options(8, 8, 3).padding(torch::kSame)));
  EXPECT_FALSE(has_kernel(Options(32, 32, 3).padding(1).padding_mode(torch::kCircular)));
}

class ThinTest : public testing::TestWithParam<Case> {};

TEST_P(ThinTest, ForwardAndGradientsAreLibtorchsInDouble) {
  const Case c = GetParam();
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c);
  const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width});
  const Pass found = pass_of(layer, images, grad);
  EXPECT_THAT(found.out.grad_fn()->name(), HasSubstr("ThinConvolution"));
  EXPECT_TRUE(found.out.is_contiguous(kChannelsLast));
  expect_near(found, exact_pass_of(layer, images, grad), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ThinTest,
                         testing::Values(Case{3, 1, 8, 5, 7}, Case{2, 1, 32, 12, 16}, Case{1, 1, 24, 1, 1},
                                         Case{2, 1, 40, 3, 2}));

TEST(Conv, FromOneChannelSumsTheGradientsOfBfloat16InFullPrecision) {
  const Case c{3, 1, 40, 17, 21};
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c).to(at::kBFloat16).to(at::kFloat);
  const at::Tensor grad = at::randn({c.images, c.out, c.height, c.width}).to(at::kBFloat16);
  {
    const InBfloat16 autocast;
    layer->forward(images).backward(grad);
  }
  const Pass exact = exact_pass_of(layer, images, grad.to(at::kFloat));
  EXPECT_LT(difference(layer->weight.grad(), exact.weight), 1e-5);
  EXPECT_LT(difference(layer->bias.grad(), exact.bias), 1e-5);
}

TEST(Conv, FromOneChannelUnderAutocastComputesInBfloat16) {
  const Case c{2, 1, 16, 9, 10};
  Conv2d layer = layer_of(c);
  const at::Tensor exact = layer->forward(images_of(c));
  const InBfloat16 autocast;
  const at::Tensor out = layer->forward(images_of(c));
  EXPECT_EQ(out.scalar_type(), at::kBFloat16);
  EXPECT_LT(difference(out, exact), 2e-2);
  out.sum().backward();
  EXPECT_EQ(layer->weight.grad().scalar_type(), at::kFloat);
}

TEST(Conv, FromOneChannelHasTheSameBitsOnAnyNumberOfThreads) {
  const Case c{5, 1, 16, 9, 10};
  Conv2d layer = layer_of(c);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = layer->forward(images_of(c));
  at::set_num_threads(2);
  const at::Tensor two = layer->forward(images_of(c));
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, two));
}

TEST(Conv, FromOneChannelAnInputThatNeedsAGradientAndTheOtherLayoutAreLibtorchs) {
  const Case c{2, 1, 8, 4, 4};
  Conv2d layer = layer_of(c);
  const at::Tensor images = images_of(c).requires_grad_();
  layer->forward(images).sum().backward();
  EXPECT_TRUE(images.grad().defined());
  Conv2d plain(Options(1, 8, 3).padding(1));
  EXPECT_THAT(plain->forward(images_of(c)).grad_fn()->name(), Not(HasSubstr("ThinConvolution")));
}

constexpr ConvProcessor kPlain{};
constexpr ConvProcessor kVectors{.bfloat16_vectors = true};
constexpr ConvProcessor kTiles{.bfloat16_vectors = true, .bfloat16_tiles = true};

TEST(ConvTable, OneChannelTakesTheThinKernelAtAnySize) {
  EXPECT_EQ(conv_kernel({.in = 1, .out = 8, .tiles = 1}, kPlain), ConvKernel::kThin);
  EXPECT_EQ(conv_kernel({.in = 1, .out = 9, .tiles = 1}, kPlain), ConvKernel::kLibtorch);
}

TEST(ConvTable, WinogradIsForThirtyTwoChannelsAndMore) {
  EXPECT_EQ(conv_kernel({.in = 32, .out = 32, .tiles = 1000}, kPlain), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel({.in = 16, .out = 64, .tiles = 1000}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 64, .out = 16, .tiles = 1000}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 40, .out = 64, .tiles = 1000}, kPlain), ConvKernel::kDirect);
}

TEST(ConvTable, FewTilesDoNotPayForTheWeights) {
  EXPECT_EQ(conv_kernel({.in = 64, .out = 64, .tiles = 511}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 64, .out = 64, .tiles = 512}, kPlain), ConvKernel::kWinograd);
}

TEST(ConvTable, LargeWeightsAreMultipliedDirectlyUnlessThereAreManyTilesInBfloat16) {
  EXPECT_EQ(conv_kernel({.in = 256, .out = 256, .tiles = 5000}, kPlain), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel({.in = 256, .out = 512, .tiles = 5000}, kPlain), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 512, .out = 512, .tiles = 1024, .bfloat16 = true}, kVectors), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel({.in = 512, .out = 512, .tiles = 1023, .bfloat16 = true}, kVectors), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel({.in = 512, .out = 1024, .tiles = 9999, .bfloat16 = true}, kVectors), ConvKernel::kDirect);
}

TEST(ConvTable, TilesOfFourResultsAreForFloat32AndImagesThatFillThem) {
  EXPECT_EQ(winograd_tile({.tiles = 64, .large_tiles = 16}), 4);
  EXPECT_EQ(winograd_tile({.tiles = 64, .large_tiles = 16, .bfloat16 = true}), 2);
  // An image of 5x6 pixels takes 9 tiles of 2x2 results, or 4 tiles of 4x4 that are about half empty. An image of 9x9
  // takes 25, or 9.
  EXPECT_EQ(winograd_tile({.tiles = 9, .large_tiles = 4}), 2);
  EXPECT_EQ(winograd_tile({.tiles = 25, .large_tiles = 9}), 4);
}

TEST(ConvTable, TilesOfFourResultsPayForFewerChannelsLargerWeightsAndFewerResults) {
  const auto choice = [](std::int64_t in, std::int64_t out, std::int64_t large_tiles) {
    return conv_kernel({.in = in, .out = out, .tiles = 4 * large_tiles, .large_tiles = large_tiles}, kPlain);
  };
  EXPECT_EQ(choice(16, 16, 64), ConvKernel::kWinograd);
  EXPECT_EQ(choice(512, 512, 64), ConvKernel::kWinograd);
  EXPECT_EQ(choice(64, 64, 63), ConvKernel::kDirect);
  EXPECT_EQ(choice(8, 16, 1000), ConvKernel::kDirect);
  EXPECT_EQ(choice(24, 32, 1000), ConvKernel::kDirect);
  EXPECT_EQ(choice(512, 528, 1000), ConvKernel::kDirect);
}

TEST(ConvTable, BfloatTakesWinogradOnProcessorsWithVectorsOfItAndWithoutMatrixUnits) {
  const ConvShape shape{.in = 64, .out = 64, .tiles = 1000, .bfloat16 = true};
  EXPECT_EQ(conv_kernel(shape, kPlain), ConvKernel::kLibtorch);
  EXPECT_EQ(conv_kernel(shape, kVectors), ConvKernel::kWinograd);
  EXPECT_EQ(conv_kernel(shape, kTiles), ConvKernel::kLibtorch);
}

TEST(ConvTable, OtherKernelsThanThreeByThreeAreMultipliedDirectly) {
  const ConvShape shape{.in = 64, .out = 64, .tiles = 1000, .bfloat16 = true, .plain = false};
  EXPECT_EQ(conv_kernel(shape, kPlain), ConvKernel::kLibtorch);
  EXPECT_EQ(conv_kernel(shape, kVectors), ConvKernel::kDirect);
  EXPECT_EQ(conv_kernel(shape, kTiles), ConvKernel::kLibtorch);
  EXPECT_EQ(conv_kernel({.in = 1, .out = 9, .plain = false}, kPlain), ConvKernel::kDirect);
}

TEST(ConvTable, EachChannelByItselfHasItsKernelOnAnyProcessor) {
  EXPECT_EQ(conv_kernel({.in = 8, .out = 8, .bfloat16 = true, .depthwise = true}, kTiles), ConvKernel::kDepthwise);
  EXPECT_EQ(conv_kernel({.in = 12, .out = 12, .depthwise = true}, kPlain), ConvKernel::kLibtorch);
}

}  // namespace conv_test
}  // namespace lockstep::nn
