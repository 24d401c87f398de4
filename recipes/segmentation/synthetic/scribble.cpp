// SPDX-License-Identifier: Apache-2.0
// Finds regions, the line along the middle of each, and the part of the line that is drawn.
#include "segmentation/synthetic/scribble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <utility>

#include "lockstep/base/error.h"
#include "segmentation/synthetic/distance_map.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

using Pixel = std::int64_t;  // index of a pixel, row by row

/// Calls visit(neighbour) for up to four neighbours.
template <class Visit>
void each_neighbour(Pixel at, ImageSize size, const Visit& visit) {
  const std::int64_t x = at % size.width;
  if (x > 0) visit(at - 1);
  if (x + 1 < size.width) visit(at + 1);
  if (at >= size.width) visit(at - size.width);
  if (at + size.width < size.width * size.height) visit(at + size.width);
}

/// The squared distance of each pixel to its own region's nearest border pixel; the image's edge is a border too.
std::vector<std::int64_t> depths_of(const NumberMap& numbers) {
  Image border{numbers.size, 1, std::vector<std::uint8_t>(numbers.values.size())};
  const ImageSize size = numbers.size;
  for (Pixel at = 0; at < std::ssize(numbers.values); ++at) {
    int same = 0;
    const std::uint16_t value = numbers.values[static_cast<std::size_t>(at)];
    each_neighbour(at, size, [&](Pixel next) { same += numbers.values[static_cast<std::size_t>(next)] == value; });
    border.pixels[static_cast<std::size_t>(at)] = same < 4 ? 1 : 0;
  }
  return squared_distances(border);
}

/// Draws the scribbles of one image.
class Scribbler {
 public:
  Scribbler(const NumberMap& numbers, const ScribbleOptions& options)
      : numbers_(numbers),
        options_(options),
        depth_(depths_of(numbers)),
        region_(numbers.values.size(), -1),
        cost_(numbers.values.size()),
        before_(numbers.values.size()) {}

  template <class ClassOf>
  Image draw(const ClassOf& class_of, SampleRandom& random) {
    Image drawn{numbers_.size, 1, std::vector<std::uint8_t>(numbers_.values.size(), kUnlabelled)};
    std::int64_t count = 0;
    for (Pixel at = 0; at < std::ssize(numbers_.values); ++at) {
      if (region_[index(at)] >= 0) continue;
      const std::vector<Pixel> pixels = flood(at, count++);
      const std::uint8_t label = class_of(numbers_.values[index(at)]);
      const bool wanted = random.chance(options_.coverage);
      if (label != kUnlabelled && wanted) scribble(pixels, label, random, drawn);
    }
    return drawn;
  }

 private:
  static std::size_t index(Pixel at) { return static_cast<std::size_t>(at); }

  std::vector<Pixel> flood(Pixel seed, std::int64_t number) {
    std::vector<Pixel> pixels{seed};
    region_[index(seed)] = number;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      each_neighbour(pixels[i], numbers_.size, [&](Pixel next) {
        if (region_[index(next)] >= 0 || numbers_.values[index(next)] != numbers_.values[index(seed)]) return;
        region_[index(next)] = number;
        pixels.push_back(next);
      });
    }
    return pixels;
  }

  void scribble(const std::vector<Pixel>& pixels, std::uint8_t label, SampleRandom& random, Image& drawn) {
    const Pixel deepest = *std::ranges::max_element(pixels, {}, [&](Pixel at) { return depth_[index(at)]; });
    const double depth = std::sqrt(static_cast<double>(depth_[index(deepest)]));
    const double margin = std::min(0.6 * depth, 3.0);
    const Pixel one_end = farthest_from(deepest, pixels, margin);
    const Pixel other_end = farthest_from(one_end, pixels, margin);
    std::vector<Pixel> line{other_end};
    while (line.back() != one_end) line.push_back(before_[index(line.back())]);
    const auto length = std::ssize(line);
    const auto kept = std::max<std::int64_t>(1, std::llround(static_cast<double>(length) * (1.0 - options_.shrink)));
    const std::int64_t begin = random.between(0, length - kept);
    const std::int64_t thickness = depth < 2 ? 1 : options_.thickness;
    for (std::int64_t i = begin; i < begin + kept; ++i) dab(line[index(i)], thickness, label, drawn);
  }

  /// Returns the pixel of the region, at least `margin` deep, with the longest path from `start`. Paths keep to the
  /// middle of the region, and before_ leads back along them.
  Pixel farthest_from(Pixel start, const std::vector<Pixel>& pixels, double margin) {
    for (const Pixel at : pixels) cost_[index(at)] = kUnreached;
    using Reached = std::pair<double, Pixel>;
    std::priority_queue<Reached, std::vector<Reached>, std::greater<>> open;
    cost_[index(start)] = 0;
    before_[index(start)] = start;
    open.emplace(0.0, start);
    Pixel farthest = start;
    const double least = margin * margin;
    while (!open.empty()) {
      const double cost = open.top().first;
      const Pixel at = open.top().second;
      open.pop();
      if (cost > cost_[index(at)]) continue;
      if (static_cast<double>(depth_[index(at)]) >= least) farthest = at;  // costs only grow
      each_neighbour(at, numbers_.size, [&](Pixel next) {
        if (region_[index(next)] != region_[index(at)]) return;
        const double onwards = cost + 1.0 / (1.0 + static_cast<double>(depth_[index(next)]));
        if (onwards >= cost_[index(next)]) return;
        cost_[index(next)] = onwards;
        before_[index(next)] = at;
        open.emplace(onwards, next);
      });
    }
    return farthest;
  }

  void dab(Pixel at, std::int64_t thickness, std::uint8_t label, Image& drawn) const {
    const std::int64_t x = at % numbers_.size.width;
    const std::int64_t y = at / numbers_.size.width;
    for (std::int64_t v = y - (thickness - 1) / 2; v <= y + thickness / 2; ++v) {
      for (std::int64_t u = x - (thickness - 1) / 2; u <= x + thickness / 2; ++u) {
        if (u < 0 || v < 0 || u >= numbers_.size.width || v >= numbers_.size.height) continue;
        const Pixel here = v * numbers_.size.width + u;
        if (region_[index(here)] == region_[index(at)]) drawn.pixels[index(here)] = label;
      }
    }
  }

  static constexpr double kUnreached = 1e300;
  const NumberMap& numbers_;
  const ScribbleOptions& options_;
  std::vector<std::int64_t> depth_;
  std::vector<std::int64_t> region_;
  std::vector<double> cost_;
  std::vector<Pixel> before_;
};

void check_scribble_options(const ScribbleOptions& options) {
  const auto share = [](const char* name, double value) {
    if (!(value >= 0 && value <= 1))
      throw UsageError(fmt::format("{} of scribbles is {}, must be 0 .. 1", name, value));
  };
  share("coverage", options.coverage);
  share("shrink", options.shrink);
  if (options.thickness < 1 || options.thickness > 3) {
    throw UsageError(fmt::format("thickness of scribbles is {} pixels, must be 1 .. 3", options.thickness));
  }
}

}  // namespace

Image derive_scribbles(const NumberMap& numbers, Numbers meaning, const ScribbleOptions& options,
                       SampleRandom& random) {
  check_scribble_options(options);
  if (meaning == Numbers::kClasses) (void)classes_of(numbers, meaning);
  Scribbler scribbler(numbers, options);
  return scribbler.draw(
      [&](std::uint16_t value) {
        return static_cast<std::uint8_t>(meaning == Numbers::kClasses ? value : std::uint16_t{value != 0});
      },
      random);
}

Image classes_of(const NumberMap& numbers, Numbers meaning) {
  Image classes{numbers.size, 1, {}};
  classes.pixels.reserve(numbers.values.size());
  for (const std::uint16_t value : numbers.values) {
    if (meaning == Numbers::kClasses && value > 255) {
      throw DataError(fmt::format("a mask has class {}; classes are 0 .. 254, 255 is unlabelled", value));
    }
    classes.pixels.push_back(static_cast<std::uint8_t>(meaning == Numbers::kClasses ? value : value != 0));
  }
  return classes;
}

NumberMap numbers_of(const Image& classes) {
  return {classes.size, std::vector<std::uint16_t>(classes.pixels.begin(), classes.pixels.end())};
}

}  // namespace lockstep::segmentation
