// SPDX-License-Identifier: Apache-2.0
#include "data/sources/annotations/rle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep::data {
namespace {

constexpr double kFine = 5;  // steps of an outline per pixel

struct FinePoint {
  std::int64_t x = 0;
  std::int64_t y = 0;
};

std::int64_t fine(double coordinate) { return static_cast<std::int64_t>(kFine * coordinate + 0.5); }

// Adds every point from one corner to the next, including both: one for each step along the longer axis.
void walk_edge(FinePoint from, FinePoint to, std::vector<FinePoint>& outline) {
  const std::int64_t dx = std::abs(to.x - from.x);
  const std::int64_t dy = std::abs(to.y - from.y);
  const bool along_x = dx >= dy;
  const std::int64_t steps = along_x ? dx : dy;
  // An edge is always walked in the same direction, so that two neighbouring polygons share their border exactly.
  const bool backward = along_x ? from.x > to.x : from.y > to.y;
  if (backward) std::swap(from, to);
  const double slope = steps == 0 ? 0
                       : along_x  ? static_cast<double>(to.y - from.y) / static_cast<double>(dx)
                                  : static_cast<double>(to.x - from.x) / static_cast<double>(dy);
  for (std::int64_t step = 0; step <= steps; ++step) {
    const std::int64_t t = backward ? steps - step : step;
    const double across = static_cast<double>(along_x ? from.y : from.x) + slope * static_cast<double>(t) + 0.5;
    const auto rounded = static_cast<std::int64_t>(static_cast<std::int32_t>(across));  // towards zero, as in C
    outline.push_back(along_x ? FinePoint{from.x + t, rounded} : FinePoint{rounded, from.y + t});
  }
}

// Marks the pixels at which the outline crosses the middle of a column, so inside and outside change there.
void toggle_crossings(const std::vector<FinePoint>& outline, Image& toggles) {
  const auto width = static_cast<double>(toggles.size.width);
  const auto height = static_cast<double>(toggles.size.height);
  for (std::size_t i = 1; i < outline.size(); ++i) {
    const FinePoint& point = outline[i];
    const FinePoint& before = outline[i - 1];
    if (point.x == before.x) continue;
    const auto fine_x = static_cast<double>(point.x < before.x ? point.x : point.x - 1);
    const double x = (fine_x + 0.5) / kFine - 0.5;
    if (std::floor(x) != x || x < 0 || x > width - 1) continue;
    const double y =
        std::ceil(std::clamp((static_cast<double>(std::min(point.y, before.y)) + 0.5) / kFine - 0.5, 0.0, height));
    // A row below the last one is the first row of the next column.
    const auto place =
        static_cast<std::size_t>(x) * static_cast<std::size_t>(toggles.size.height) + static_cast<std::size_t>(y);
    if (place < toggles.pixels.size()) toggles.pixels[place] ^= 1U;
  }
}

}  // namespace

RunLengths runs_of(const Image& mask) {
  RunLengths runs;
  std::uint8_t value = 0;
  std::uint32_t length = 0;
  for (std::int64_t x = 0; x < mask.size.width; ++x) {
    for (std::int64_t y = 0; y < mask.size.height; ++y) {
      const auto pixel = static_cast<std::uint8_t>(mask.pixels[static_cast<std::size_t>(y * mask.size.width + x)] != 0);
      if (pixel != value) {
        runs.push_back(length);
        value = pixel;
        length = 0;
      }
      ++length;
    }
  }
  runs.push_back(length);
  return runs;
}

Result<Image> mask_of(const RunLengths& runs, ImageSize size) {
  Image mask{size, 1, {}};
  const auto pixels = static_cast<std::uint64_t>(size.width * size.height);
  std::uint64_t sum = 0;
  for (const std::uint32_t run : runs) sum += run;
  if (sum != pixels) return Failure{fmt::format("a mask of {} pixels for an image of {}", sum, pixels)};
  mask.pixels.resize(pixels);
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::uint64_t end = at + runs[i]; at < end; ++at) {
      if (i % 2 == 0) {
        at = end - 1;
        continue;
      }
      const auto height = static_cast<std::uint64_t>(size.height);
      mask.pixels[at % height * static_cast<std::uint64_t>(size.width) + at / height] = 1;
    }
  }
  return mask;
}

std::string text_of(const RunLengths& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::int64_t value = runs[i];
    if (i > 2) value -= runs[i - 2];
    for (bool more = true; more;) {
      auto letter = static_cast<char>(value & 0x1f);
      value >>= 5;
      more = (letter & 0x10) != 0 ? value != -1 : value != 0;
      if (more) letter = static_cast<char>(letter | 0x20);
      text += static_cast<char>(letter + 48);
    }
  }
  return text;
}

Result<RunLengths> runs_from_text(std::string_view text) {
  RunLengths runs;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t value = 0;
    bool more = true;
    for (int shift = 0; more; shift += 5, ++at) {
      if (at == text.size() || shift > 30)
        return Failure{fmt::format("the counts of a mask end abruptly at character {}", at)};
      const int letter = text[at] - 48;
      if (letter < 0 || letter > 63) return Failure{fmt::format("character {} of a mask's counts is invalid", at)};
      value |= static_cast<std::int64_t>(letter & 0x1f) << shift;
      more = (letter & 0x20) != 0;
      if (!more && (letter & 0x10) != 0) value -= std::int64_t{1} << (shift + 5);
    }
    if (runs.size() > 2) value += runs[runs.size() - 2];
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
      return Failure{fmt::format("run {} of a mask is invalid: {}", runs.size(), value)};
    }
    runs.push_back(static_cast<std::uint32_t>(value));
  }
  return runs;
}

Result<bool> draw_polygon(const std::vector<double>& corners, Image& mask) {
  if (corners.size() < 6 || corners.size() % 2 != 0)
    return Failure{fmt::format("a polygon needs x and y of at least 3 corners, not {} numbers", corners.size())};
  std::vector<FinePoint> points;
  for (std::size_t i = 0; i < corners.size(); i += 2) {
    // Also false for NaN.
    if (!(std::abs(corners[i]) <= kMaxOutlineCoordinate && std::abs(corners[i + 1]) <= kMaxOutlineCoordinate)) {
      return Failure{fmt::format("a polygon's corner at ({}, {})", corners[i], corners[i + 1])};
    }
    points.push_back({fine(corners[i]), fine(corners[i + 1])});
  }
  points.push_back(points.front());
  std::int64_t length = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    length += std::max(std::abs(points[i].x - points[i - 1].x), std::abs(points[i].y - points[i - 1].y)) + 1;
  }
  if (length > kMaxOutlinePoints) return Failure{fmt::format("a polygon whose outline is {} pixels long", length / 5)};
  std::vector<FinePoint> outline;
  outline.reserve(static_cast<std::size_t>(length));
  for (std::size_t i = 1; i < points.size(); ++i) walk_edge(points[i - 1], points[i], outline);
  Image toggles{mask.size, 1, std::vector<std::uint8_t>(mask.pixels.size(), 0)};  // down the columns
  toggle_crossings(outline, toggles);
  std::uint8_t inside = 0;
  std::size_t at = 0;
  for (std::int64_t x = 0; x < mask.size.width; ++x) {
    for (std::int64_t y = 0; y < mask.size.height; ++y, ++at) {
      inside ^= toggles.pixels[at];
      if (inside != 0) mask.pixels[static_cast<std::size_t>(y * mask.size.width + x)] = 1;
    }
  }
  return true;
}

}  // namespace lockstep::data
