// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/resize.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "lockstep/base/error.h"
#include "nn/layer_testing.h"

namespace lockstep::nn {
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

/// Images that are numbers of bfloat16, so that only results are rounded there.
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
