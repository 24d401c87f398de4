// SPDX-License-Identifier: Apache-2.0
// Computes in integers up to the final root, so that rounding does not change a distance.
#include "segmentation/synthetic/distance_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

constexpr std::int64_t kFar = std::int64_t{1} << 24;  // pixels: larger than any image, and its square fits an int64

/// The distance, row by row, to the nearest source in the same column, or at least kFar if there is none.
std::vector<std::int64_t> column_distances(const Image& sources) {
  const std::int64_t width = sources.size.width;
  const std::int64_t height = sources.size.height;
  std::vector<std::int64_t> near(sources.pixels.size());
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const auto at = static_cast<std::size_t>(y * width + x);
      const std::int64_t above = y == 0 ? kFar : near[at - static_cast<std::size_t>(width)] + 1;
      near[at] = sources.pixels[at] != 0 ? 0 : above;
    }
  }
  for (std::int64_t y = height - 2; y >= 0; --y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const auto at = static_cast<std::size_t>(y * width + x);
      near[at] = std::min(near[at], near[at + static_cast<std::size_t>(width)] + 1);
    }
  }
  return near;
}

/// The lower envelope of the parabolas (x - i)^2 + near(i)^2 of one row.
class RowEnvelope {
 public:
  explicit RowEnvelope(std::int64_t width)
      : width_(width), site_(static_cast<std::size_t>(width)), from_(static_cast<std::size_t>(width)) {}

  void run(const std::int64_t* near, std::int64_t* squared) {
    std::size_t count = 0;
    for (std::int64_t u = 0; u < width_; ++u) {
      if (near[u] >= kFar) continue;
      while (count > 0 && height(near, site_[count - 1], from_[count - 1]) > height(near, u, from_[count - 1])) --count;
      const std::int64_t begin = count == 0 ? 0 : first_below(near, site_[count - 1], u);
      if (begin >= width_) continue;
      site_[count] = u;
      from_[count++] = begin;
    }
    for (std::int64_t x = width_ - 1; x >= 0; --x) {
      squared[x] = count == 0 ? kNoSource : height(near, site_[count - 1], x);
      if (count > 0 && x == from_[count - 1]) --count;
    }
  }

 private:
  static std::int64_t height(const std::int64_t* near, std::int64_t i, std::int64_t x) {
    return (x - i) * (x - i) + near[i] * near[i];
  }
  /// The first x at which the parabola of u is below the parabola of i, with i < u.
  static std::int64_t first_below(const std::int64_t* near, std::int64_t i, std::int64_t u) {
    const std::int64_t above = u * u - i * i + near[u] * near[u] - near[i] * near[i];
    const std::int64_t below = 2 * (u - i);
    const std::int64_t cut = above >= 0 ? above / below : -((-above + below - 1) / below);
    return std::max<std::int64_t>(cut + 1, 0);
  }

  std::int64_t width_;
  std::vector<std::int64_t> site_;
  std::vector<std::int64_t> from_;
};

void check_distance_input(const Image& map, double lambda) {
  if (map.channels != 1) throw UsageError(fmt::format("a label map has one channel, not {}", map.channels));
  if (!(lambda > 0)) throw UsageError(fmt::format("lambda of a distance map is {}, must be positive", lambda));
}

Image clipped_distances(const Image& sources, double lambda, bool turned) {
  const std::vector<std::int64_t> squared = squared_distances(sources);
  Image map{sources.size, 1, {}};
  map.pixels.reserve(squared.size());
  for (const std::int64_t d2 : squared) {
    const double value = d2 == kNoSource ? 255.0 : std::min(std::sqrt(lambda * static_cast<double>(d2)), 255.0);
    const auto whole = static_cast<std::uint8_t>(value);
    map.pixels.push_back(turned ? static_cast<std::uint8_t>(255 - whole) : whole);
  }
  return map;
}

}  // namespace

std::vector<std::int64_t> squared_distances(const Image& sources) {
  check_distance_input(sources, 1.0);
  const std::vector<std::int64_t> near = column_distances(sources);
  std::vector<std::int64_t> squared(near.size());
  RowEnvelope envelope(sources.size.width);
  for (std::int64_t y = 0; y < sources.size.height; ++y) {
    envelope.run(near.data() + y * sources.size.width, squared.data() + y * sources.size.width);
  }
  return squared;
}

Image contours_of(const Image& labels) {
  const std::int64_t width = labels.size.width;
  const std::int64_t height = labels.size.height;
  Image contours{labels.size, 1, std::vector<std::uint8_t>(labels.pixels.size())};
  const auto mark = [&](std::int64_t a, std::int64_t b) {
    const auto first = static_cast<std::size_t>(a);
    const auto second = static_cast<std::size_t>(b);
    if (labels.pixels[first] == labels.pixels[second]) return;
    contours.pixels[first] = 1;
    contours.pixels[second] = 1;
  };
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t at = y * width + x;
      if (x + 1 < width) mark(at, at + 1);
      if (y + 1 < height) mark(at, at + width);
    }
  }
  return contours;
}

Image scribble_distance_map(const Image& scribbles, double lambda) {
  check_distance_input(scribbles, lambda);
  Image sources = scribbles;
  for (std::uint8_t& value : sources.pixels) value = value != kUnlabelled ? 1 : 0;
  return clipped_distances(sources, lambda, true);
}

Image class_distance_map(const Image& labels, double lambda) {
  check_distance_input(labels, lambda);
  return clipped_distances(contours_of(labels), lambda, false);
}

}  // namespace lockstep::segmentation
