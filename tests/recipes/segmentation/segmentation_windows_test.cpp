// SPDX-License-Identifier: Apache-2.0
// Looking at pictures through windows and in scales.
#include <ATen/core/ivalue.h>  // before any other torch header
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "segmentation/model/windows.h"

namespace lockstep::segmentation {
namespace segmentation_windows_test {

using Starts = std::vector<std::int64_t>;

/// A network whose logits depend on the pixel alone: windows then change nothing.
at::Tensor by_pixel(const at::Tensor& pictures) {
  const at::Tensor red = pictures.narrow(1, 0, 1);
  return at::cat({red * 4, at::zeros_like(red), 1 - red}, 1);
}

TEST(SegmentationWindows, CoverASideEvenlyAndReachBothEnds) {
  EXPECT_EQ(window_starts(100, 100, 0.5), Starts{0});
  EXPECT_EQ(window_starts(60, 100, 0.5), Starts{0});
  EXPECT_EQ(window_starts(200, 100, 0.0), (Starts{0, 100}));
  EXPECT_EQ(window_starts(201, 100, 0.0), (Starts{0, 50, 101}));
  EXPECT_EQ(window_starts(200, 100, 0.5), (Starts{0, 50, 100}));
  EXPECT_EQ(window_starts(512, 465, 1.0 / 3), (Starts{0, 47}));
}

TEST(SegmentationWindows, OverlapAtLeastAsMuchAsWanted) {
  for (const std::int64_t length : {10, 130, 255, 256, 511, 1000}) {
    for (const auto& [window, overlap] : {std::pair{5, 0.5}, {7, 0.8}, {128, 0.25}}) {
      if (length <= window) continue;
      const Starts starts = window_starts(length, window, overlap);
      EXPECT_EQ(starts.front(), 0);
      EXPECT_EQ(starts.back(), length - window);
      for (std::size_t i = 1; i < starts.size(); ++i) {
        const auto shared = static_cast<double>(starts[i - 1] + window - starts[i]);
        EXPECT_GE(shared, overlap * window) << length << " " << window;
        EXPECT_GT(starts[i], starts[i - 1]) << length << " " << window;
      }
    }
  }
}

TEST(SegmentationWindows, RefuseNoWindowAndAnOverlapThatNeverMovesOn) {
  EXPECT_THROW((void)window_starts(10, 0, 0.5), UsageError);
  EXPECT_THROW((void)window_starts(10, 5, 1.0), UsageError);
  EXPECT_THROW((void)window_starts(10, 5, -0.1), UsageError);
}

TEST(SegmentationWindows, ChangeNothingForANetworkThatSeesSinglePixels) {
  const at::Tensor picture = at::rand({3, 37, 53});
  const at::Tensor whole = at::softmax(by_pixel(picture.unsqueeze(0)), 1)[0];
  for (const std::int64_t window : {0, 8, 20, 45, 60}) {
    const at::Tensor shares = class_shares(picture, by_pixel, {.window = window, .batch = 3});
    ASSERT_EQ(shares.sizes(), (at::IntArrayRef{3, 37, 53}));
    EXPECT_TRUE(shares.allclose(whole, 1e-5, 1e-6)) << window;
  }
  EXPECT_TRUE(class_shares(picture, by_pixel, {.window = 20, .flip = true}).allclose(whole, 1e-5, 1e-6));
}

TEST(SegmentationWindows, AreNoLargerThanWhatTheNetworkMaySee) {
  std::int64_t largest = 0;
  std::int64_t most = 0;
  const auto watch = [&](const at::Tensor& pictures) {
    largest = std::max({largest, pictures.size(2), pictures.size(3)});
    most = std::max(most, pictures.size(0));
    return by_pixel(pictures);
  };
  (void)class_shares(at::rand({3, 90, 30}), watch, {.window = 32, .scales = {0.5, 1.0, 2.0}, .batch = 4});
  EXPECT_EQ(largest, 32);
  EXPECT_EQ(most, 4);
}

TEST(SegmentationWindows, TakeTheMeanOverScalesInTheSizeOfTheBase) {
  std::vector<std::int64_t> widths;
  const auto watch = [&](const at::Tensor& pictures) {
    widths.push_back(pictures.size(3));
    return by_pixel(pictures);
  };
  const at::Tensor shares = class_shares(at::rand({3, 20, 40}), watch, {.scales = {0.5, 1.0, 1.5}, .base_size = 60});
  EXPECT_EQ(widths, (Starts{30, 60, 90}));
  EXPECT_EQ(shares.sizes(), (at::IntArrayRef{3, 20, 40}));
  EXPECT_TRUE(shares.sum(0).allclose(at::ones_like(shares[0]), 1e-5, 1e-5)) << "shares of all classes are 1";
}

TEST(SegmentationWindows, MirroredViewsMakeTheResultSymmetric) {
  // Logits grow to the right, whatever is there: mirrored and averaged that is gone.
  const auto leaning = [](const at::Tensor& pictures) {
    const at::Tensor ramp =
        at::arange(pictures.size(3), at::kFloat).expand({pictures.size(0), 1, pictures.size(2), -1});
    return at::cat({ramp, at::zeros_like(ramp)}, 1);
  };
  const at::Tensor shares = class_shares(at::rand({3, 4, 6}), leaning, {.flip = true});
  EXPECT_TRUE(shares.allclose(shares.flip({2}), 1e-5, 1e-6));
}

TEST(SegmentationWindows, RefuseScalesThatAreNone) {
  EXPECT_THROW((void)class_shares(at::rand({3, 8, 8}), by_pixel, {.scales = {}}), UsageError);
  EXPECT_THROW((void)class_shares(at::rand({3, 8, 8}), by_pixel, {.scales = {0.0}}), UsageError);
}

}  // namespace segmentation_windows_test
}  // namespace lockstep::segmentation
