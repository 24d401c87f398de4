// SPDX-License-Identifier: Apache-2.0
#include "segmentation/pseudo_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "lockstep/base/error.h"
#include "segmentation/planes.h"

namespace lockstep::segmentation {
namespace {

/// The class of all labelled neighbours of a pixel where they agree, else kUnlabelled.
std::uint8_t agreed_class(const cv::Mat& markers, int x, int y) {
  int agreed = 0;
  for (int v = std::max(y - 1, 0); v <= std::min(y + 1, markers.rows - 1); ++v) {
    for (int u = std::max(x - 1, 0); u <= std::min(x + 1, markers.cols - 1); ++u) {
      const int marker = markers.at<int>(v, u);
      if (marker <= 0) continue;
      if (agreed != 0 && agreed != marker) return kUnlabelled;
      agreed = marker;
    }
  }
  return agreed == 0 ? kUnlabelled : static_cast<std::uint8_t>(agreed - 1);
}

}  // namespace

Image watershed_labels(const Image& picture, const Image& scribbles) {
  if (picture.channels != 3 || scribbles.channels != 1 || picture.size != scribbles.size) {
    throw UsageError(fmt::format(
        "pseudo-labels need a picture of 3 channels and scribbles of its size; the picture is "
        "{} x {} with {} channels, the scribbles are {} x {}",
        picture.size.width, picture.size.height, picture.channels, scribbles.size.width, scribbles.size.height));
  }
  const auto width = static_cast<int>(picture.size.width);
  const auto height = static_cast<int>(picture.size.height);
  Image labels{picture.size, 1, std::vector<std::uint8_t>(scribbles.pixels.size(), kUnlabelled)};
  // OpenCV has no const view; it only reads this one.
  const cv::Mat seen(height, width, CV_8UC3, const_cast<std::uint8_t*>(picture.pixels.data()));
  cv::Mat smooth;
  cv::GaussianBlur(seen, smooth, {5, 5}, 1.2);
  cv::Mat markers(height, width, CV_32S);
  std::ranges::transform(scribbles.pixels, markers.ptr<int>(),
                         [](std::uint8_t label) { return label == kUnlabelled ? 0 : label + 1; });
  if (cv::countNonZero(markers) == 0) return labels;
  cv::watershed(smooth, markers);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto at = static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x);
      const int marker = markers.at<int>(y, x);
      // OpenCV makes the picture's border a seam as well, and scribbles stay what they are.
      labels.pixels[at] = marker > 0 ? static_cast<std::uint8_t>(marker - 1) : agreed_class(markers, x, y);
      if (scribbles.pixels[at] != kUnlabelled) labels.pixels[at] = scribbles.pixels[at];
    }
  }
  return labels;
}

namespace {

/// A smooth random field: bilinear between values of -1 .. 1 at the corners of squares.
class SmoothField {
 public:
  SmoothField(ImageSize size, std::int64_t square, SampleRandom& random)
      : square_(square),
        columns_(size.width / square + 2),
        values_(static_cast<std::size_t>(columns_ * (size.height / square + 2))) {
    for (double& value : values_) value = random.uniform(-1.0, 1.0);
  }
  [[nodiscard]] double at(std::int64_t x, std::int64_t y) const {
    const std::int64_t i = y / square_ * columns_ + x / square_;
    const double u = static_cast<double>(x % square_) / static_cast<double>(square_);
    const double v = static_cast<double>(y % square_) / static_cast<double>(square_);
    const double above = std::lerp(value(i), value(i + 1), u);
    return std::lerp(above, std::lerp(value(i + columns_), value(i + columns_ + 1), u), v);
  }

 private:
  [[nodiscard]] double value(std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t square_;
  std::int64_t columns_;
  std::vector<double> values_;
};

void check_coarse_options(const CoarseOptions& options) {
  if (options.cell < 1 || options.cell > 256) {
    throw UsageError(fmt::format("a cell of {} pixels, must be 1 .. 256", options.cell));
  }
  if (!(options.shift >= 0 && options.shift <= 2)) {
    throw UsageError(fmt::format("borders move by {} cells, must be 0 .. 2", options.shift));
  }
  if (!(options.least_share >= 0 && options.least_share <= 1)) {
    throw UsageError(fmt::format("a class needs {} of a cell, must be 0 .. 1", options.least_share));
  }
}

}  // namespace

Image coarse_labels(const Image& mask, const CoarseOptions& options, SampleRandom& random) {
  check_coarse_options(options);
  const auto [width, height] = mask.size;
  const SmoothField across(mask.size, 4 * options.cell, random);
  const SmoothField down(mask.size, 4 * options.cell, random);
  const double most = options.shift * static_cast<double>(options.cell);
  const auto seen = [&](std::int64_t x, std::int64_t y) {
    const auto u = std::clamp<std::int64_t>(x + std::llround(most * across.at(x, y)), 0, width - 1);
    const auto v = std::clamp<std::int64_t>(y + std::llround(most * down.at(x, y)), 0, height - 1);
    return mask.pixels[static_cast<std::size_t>(v * width + u)];
  };
  Image labels{mask.size, 1, std::vector<std::uint8_t>(mask.pixels.size(), kUnlabelled)};
  for (std::int64_t top = 0; top < height; top += options.cell) {
    for (std::int64_t left = 0; left < width; left += options.cell) {
      const std::int64_t right = std::min(left + options.cell, width);
      const std::int64_t bottom = std::min(top + options.cell, height);
      std::array<std::int64_t, 256> counts{};
      for (std::int64_t y = top; y < bottom; ++y) {
        for (std::int64_t x = left; x < right; ++x) ++counts[seen(x, y)];
      }
      const auto most_of = std::ranges::max_element(counts);
      const auto pixels = static_cast<double>((right - left) * (bottom - top));
      if (static_cast<double>(*most_of) < options.least_share * pixels) continue;
      for (std::int64_t y = top; y < bottom; ++y) {
        std::fill_n(labels.pixels.begin() + y * width + left, right - left,
                    static_cast<std::uint8_t>(most_of - counts.begin()));
      }
    }
  }
  return labels;
}

}  // namespace lockstep::segmentation
