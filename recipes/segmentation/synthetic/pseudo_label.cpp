// SPDX-License-Identifier: Apache-2.0
#include "segmentation/synthetic/derive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <queue>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

/// An image's three channels, scaled to its contrast: 0 is the darkest, 1 the brightest value, ignoring 1 % at each
/// end.
class Contrast {
 public:
  explicit Contrast(const Image& picture) : size_(picture.size) {
    const auto width = static_cast<int>(size_.width);
    const auto height = static_cast<int>(size_.height);
    // OpenCV has no const view; this view is only read.
    const cv::Mat seen(height, width, CV_8UC3, const_cast<std::uint8_t*>(picture.pixels.data()));
    cv::Mat values;
    seen.convertTo(values, CV_32FC3);
    cv::GaussianBlur(values, values, {5, 5}, 1.0);
    std::array<std::int64_t, 256> counts{};
    for (const std::uint8_t value : picture.pixels) ++counts[value];
    const auto total = static_cast<double>(picture.pixels.size());
    const double low = share_value(counts, 0.01 * total);
    const double high = std::max(share_value(counts, 0.99 * total), low + 8.0);
    const auto* from = values.ptr<float>();
    const std::size_t pixels = picture.pixels.size() / 3;
    for (std::size_t i = 0; i < 3; ++i) {
      planes_[i].resize(pixels);
      for (std::size_t k = 0; k < pixels; ++k) {
        planes_[i][k] = static_cast<float>((from[3 * k + i] - low) / (high - low));
      }
    }
  }

  [[nodiscard]] const std::vector<float>& plane(std::size_t channel) const { return planes_[channel]; }
  /// The largest change of a channel from one pixel to another.
  [[nodiscard]] double change(std::size_t a, std::size_t b) const {
    double most = 0;
    for (const std::vector<float>& plane : planes_) most = std::max<double>(most, std::abs(plane[a] - plane[b]));
    return most;
  }

 private:
  /// The smallest value that has at least `wanted` pixels at or below it.
  static double share_value(const std::array<std::int64_t, 256>& counts, double wanted) {
    double below = 0;
    for (std::size_t value = 0; value < counts.size(); ++value) {
      below += static_cast<double>(counts[value]);
      if (below >= wanted) return static_cast<double>(value);
    }
    return 255.0;
  }

  ImageSize size_;
  std::array<std::vector<float>, 3> planes_;
};

/// The strangeness of every pixel's colour to each class: the degree to which it resembles the other classes'
/// scribbles.
class Strangeness {
 public:
  Strangeness(const Contrast& contrast, const Image& scribbles, double likeness)
      : scale_(static_cast<float>(1.0 / (likeness * likeness))) {
    std::array<std::vector<std::size_t>, 256> drawn;
    for (std::size_t i = 0; i < scribbles.pixels.size(); ++i) {
      if (scribbles.pixels[i] != kUnlabelled) drawn[scribbles.pixels[i]].push_back(i);
    }
    std::vector<float> sum(scribbles.pixels.size(), 0.0F);
    for (std::size_t label = 0; label < drawn.size(); ++label) {
      if (drawn[label].empty()) continue;
      strange_[label] = alike(contrast, drawn[label]);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += strange_[label][i];
    }
    for (std::vector<float>& of_class : strange_) {
      for (std::size_t i = 0; i < of_class.size(); ++i) of_class[i] = 1.0F - of_class[i] / sum[i];
    }
  }

  /// The strangeness to a class that has scribbles, in 0 .. 1.
  [[nodiscard]] float at(std::size_t pixel, std::uint8_t label) const { return strange_[label][pixel]; }

 private:
  /// The likeness of every pixel to the pixels `drawn`.
  [[nodiscard]] std::vector<float> alike(const Contrast& contrast, const std::vector<std::size_t>& drawn) const {
    const std::vector<float>& red = contrast.plane(0);
    const std::vector<float>& green = contrast.plane(1);
    const std::vector<float>& blue = contrast.plane(2);
    std::vector<float> much(red.size(), 0.0F);
    const std::size_t step = (drawn.size() + kColours - 1) / kColours;
    const float weight = 1.0F / static_cast<float>((drawn.size() + step - 1) / step);
    for (std::size_t k = 0; k < drawn.size(); k += step) {
      const float r = red[drawn[k]];
      const float g = green[drawn[k]];
      const float b = blue[drawn[k]];
      for (std::size_t i = 0; i < much.size(); ++i) {
        const float far = (red[i] - r) * (red[i] - r) + (green[i] - g) * (green[i] - g) + (blue[i] - b) * (blue[i] - b);
        const float near = 1.0F / (1.0F + scale_ * far);
        much[i] += weight * near * near * near * near;
      }
    }
    for (float& value : much) value += kUnknown;
    return much;
  }

  static constexpr std::size_t kColours = 64;  // largest number of colours per class
  static constexpr float kUnknown = 1e-4F;     // a colour unlike all classes is not strange to any class
  float scale_;
  std::array<std::vector<float>, 256> strange_;
};

/// Gives every pixel the class whose scribbles have the cheapest path to it.
class Flood {
 public:
  Flood(const Image& picture, const Image& scribbles, const FloodOptions& options)
      : options_(options),
        size_(picture.size),
        contrast_(picture),
        strangeness_(contrast_, scribbles, options.likeness),
        labels_(scribbles),
        cost_(scribbles.pixels.size(), kUnreached) {}

  Image run() {
    for (std::size_t i = 0; i < cost_.size(); ++i) {
      if (labels_.pixels[i] != kUnlabelled) reach(i, 0.0F);
    }
    while (!open_.empty()) {
      const auto [cost, at] = open_.top();
      open_.pop();
      if (cost <= cost_[at]) spread(at);
    }
    return std::move(labels_);
  }

 private:
  void reach(std::size_t at, float cost) {
    cost_[at] = cost;
    open_.emplace(cost, at);
  }

  void spread(std::size_t at) {
    const auto width = static_cast<std::size_t>(size_.width);
    const std::size_t x = at % width;
    if (x > 0) try_step(at, at - 1);
    if (x + 1 < width) try_step(at, at + 1);
    if (at >= width) try_step(at, at - width);
    if (at + width < cost_.size()) try_step(at, at + width);
  }

  void try_step(std::size_t from, std::size_t to) {
    const double paid = options_.step + options_.edge * contrast_.change(from, to) +
                        options_.strange * strangeness_.at(to, labels_.pixels[from]);
    const float cost = cost_[from] + static_cast<float>(paid);
    if (cost >= cost_[to]) return;
    labels_.pixels[to] = labels_.pixels[from];
    reach(to, cost);
  }

  static constexpr float kUnreached = 1e30F;
  using Reached = std::pair<float, std::size_t>;
  const FloodOptions& options_;
  ImageSize size_;
  Contrast contrast_;
  Strangeness strangeness_;
  Image labels_;
  std::vector<float> cost_;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> open_;
};

/// Sets the first pixel of each pair of neighbours with different classes to kUnlabelled, unless it is a scribble.
Image with_seams(const Image& labels, const Image& scribbles) {
  const auto width = static_cast<std::size_t>(labels.size.width);
  Image seamed = labels;
  for (std::size_t at = 0; at < labels.pixels.size(); ++at) {
    const bool right = at % width + 1 < width && labels.pixels[at + 1] != labels.pixels[at];
    const bool below = at + width < labels.pixels.size() && labels.pixels[at + width] != labels.pixels[at];
    if ((right || below) && scribbles.pixels[at] == kUnlabelled) seamed.pixels[at] = kUnlabelled;
  }
  return seamed;
}

}  // namespace

Image watershed_labels(const Image& picture, const Image& scribbles, const FloodOptions& options) {
  if (picture.channels != 3 || scribbles.channels != 1 || picture.size != scribbles.size) {
    throw UsageError(fmt::format(
        "pseudo-labels need an image of 3 channels and scribbles of its size; the image is {} x {} with {} channels, "
        "the scribbles are {} x {}",
        picture.size.width, picture.size.height, picture.channels, scribbles.size.width, scribbles.size.height));
  }
  return with_seams(Flood(picture, scribbles, options).run(), scribbles);
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
    throw UsageError(fmt::format("the cell size is {} pixels, must be 1 .. 256", options.cell));
  }
  if (!(options.shift >= 0 && options.shift <= 2)) {
    throw UsageError(fmt::format("the border shift is {} cells, must be 0 .. 2", options.shift));
  }
  if (!(options.least_share >= 0 && options.least_share <= 1)) {
    throw UsageError(fmt::format("the least share of a class in a cell is {}, must be 0 .. 1", options.least_share));
  }
}

}  // namespace

Image coarse_labels(const Image& mask, const CoarseOptions& options, SampleRandom& random) {
  check_coarse_options(options);
  const std::int64_t width = mask.size.width;
  const std::int64_t height = mask.size.height;
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
