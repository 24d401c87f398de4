// SPDX-License-Identifier: Apache-2.0
// A pixel's coverage depends on its distance to the outline: 0.5 on the line, 0 or 1 half a pixel away.
#include "detection/synthetic/scene_paint.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep::detection {
namespace {

constexpr double kGroundApart = 60;    // maximum distance between the background's two colours
constexpr double kLumaApart = 40;      // minimum difference in brightness between a shape and what is underneath
constexpr int kColorTries = 40;        // attempts to find a colour
constexpr std::int64_t kLattice = 16;  // random values per side of a cloudy background

double luma(const Ink& ink) noexcept { return 0.299 * ink[0] + 0.587 * ink[1] + 0.114 * ink[2]; }

Ink any_ink(SampleRandom& random) {
  Ink ink{};
  for (float& channel : ink) channel = static_cast<float>(random.between(0, 255));
  return ink;
}

float covered(double distance) noexcept { return static_cast<float>(std::clamp(0.5 - distance, 0.0, 1.0)); }

/// The fraction of a pixel that the paint covers at this distance.
float covered_by(const Paint& paint, double distance) noexcept {
  return paint.hollow ? covered(std::max(distance, -paint.edge_width - distance)) : covered(distance);
}

struct Span {
  std::int64_t x1, y1, x2, y2;
};

Span pixels_of(const Extent& extent) noexcept {
  const auto low = [](double value) { return static_cast<std::int64_t>(std::floor(value - 0.5)); };
  const auto high = [](double value) { return static_cast<std::int64_t>(std::ceil(value + 0.5)); };
  return {low(extent.x1), low(extent.y1), high(extent.x2), high(extent.y2)};
}

/// A smooth function of the plane with values in 0 .. 1.
class Texture {
 public:
  explicit Texture(SampleRandom& random) : kind_(random.below(4)) {
    const double angle = random.uniform(0, 2 * std::numbers::pi);
    period_ = random.uniform(8, 48);
    cos_ = std::cos(angle) / period_;
    sin_ = std::sin(angle) / period_;
    for (float& value : lattice_) value = static_cast<float>(random.uniform());
  }

  [[nodiscard]] double at(double x, double y) const noexcept {
    const double along = x * cos_ + y * sin_;
    const double across = y * cos_ - x * sin_;
    switch (kind_) {
      case 0:  // a gradient across roughly the whole image
        return std::clamp(0.5 + along / 8, 0.0, 1.0);
      case 1:  // waves
        return 0.5 + 0.5 * std::sin(2 * std::numbers::pi * along);
      case 2:  // crossed waves
        return 0.5 + 0.25 * std::sin(2 * std::numbers::pi * along) + 0.25 * std::sin(2 * std::numbers::pi * across);
      default:  // clouds
        return cloud(along, across);
    }
  }

 private:
  [[nodiscard]] double cloud(double x, double y) const noexcept {
    const double left = std::floor(x);
    const double top = std::floor(y);
    const auto smooth = [](double t) { return t * t * (3 - 2 * t); };
    const double right_share = smooth(x - left);
    const double down_share = smooth(y - top);
    const auto value = [&](double i, double j) {
      const auto column = static_cast<std::int64_t>(i) & (kLattice - 1);
      const auto row = static_cast<std::int64_t>(j) & (kLattice - 1);
      return static_cast<double>(lattice_[static_cast<std::size_t>(row * kLattice + column)]);
    };
    const double upper = std::lerp(value(left, top), value(left + 1, top), right_share);
    const double lower = std::lerp(value(left, top + 1), value(left + 1, top + 1), right_share);
    return std::lerp(upper, lower, down_share);
  }

  std::uint64_t kind_;
  double period_ = 0;
  double cos_ = 0;
  double sin_ = 0;
  std::array<float, kLattice * kLattice> lattice_{};
};

}  // namespace

double ink_distance(const Ink& a, const Ink& b) noexcept { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

Ink ink_apart_from(std::span<const Ink> others, double least, SampleRandom& random) {
  Ink best{};
  double best_apart = -1;
  for (int i = 0; i < kColorTries; ++i) {
    const Ink ink = any_ink(random);
    double apart = 2 * least;
    for (const Ink& other : others) {
      apart = std::min({apart, ink_distance(ink, other), least * std::abs(luma(ink) - luma(other)) / kLumaApart});
    }
    if (apart >= least) return ink;
    if (apart > best_apart) {
      best_apart = apart;
      best = ink;
    }
  }
  return best;
}

std::array<Ink, 2> ScenePixels::paint_ground(SampleRandom& random) {
  const Ink first = any_ink(random);
  Ink second = any_ink(random);
  const double apart = ink_distance(first, second);
  const double share = std::min(1.0, random.uniform(0.2, 1.0) * kGroundApart / std::max(apart, 1.0));
  for (std::size_t c = 0; c < 3; ++c) {
    second[c] = std::lerp(first[c], second[c], static_cast<float>(share));
  }
  const Texture texture(random);
  for (std::int64_t y = 0; y < size().height; ++y) {
    for (std::int64_t x = 0; x < size().width; ++x) {
      const auto mix = static_cast<float>(texture.at(static_cast<double>(x), static_cast<double>(y)));
      for (std::size_t c = 0; c < 3; ++c) at(x, y)[c] = std::lerp(first[c], second[c], mix);
    }
  }
  return {first, second};
}

void ScenePixels::paint(const Outline& outline, const Paint& paint) {
  const Extent& extent = outline.extent();
  const Span span = pixels_of(extent);
  for (std::int64_t y = std::max<std::int64_t>(span.y1, 0); y < std::min(span.y2, size().height); ++y) {
    for (std::int64_t x = std::max<std::int64_t>(span.x1, 0); x < std::min(span.x2, size().width); ++x) {
      const double distance = outline.distance(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      const float share = covered_by(paint, distance);
      if (share <= 0) continue;
      const float inner = paint.edge ? covered(distance + paint.edge_width) : 1.0F;
      const double shade =
          (static_cast<double>(x) - extent.x1) * paint.shade_x + (static_cast<double>(y) - extent.y1) * paint.shade_y;
      for (std::size_t c = 0; c < 3; ++c) {
        const float ink = (paint.edge ? std::lerp((*paint.edge)[c], paint.fill[c], inner) : paint.fill[c]) +
                          static_cast<float>(shade);
        at(x, y)[c] = std::lerp(at(x, y)[c], ink, share);
      }
    }
  }
}

void ScenePixels::add_normal_noise(double deviation, SampleRandom& random) {
  // The sum of four uniform 16-bit numbers is nearly normal, and needs a quarter of the random numbers.
  constexpr double kMiddle = 4 * 65535 / 2.0;
  const double scale = deviation / (65536 * std::sqrt(4 / 12.0));
  for (Ink& ink : tints()) {
    for (float& value : ink) {
      const std::uint64_t bits = random();
      const double sum =
          static_cast<double>((bits & 0xffffU) + (bits >> 16 & 0xffffU) + (bits >> 32 & 0xffffU) + (bits >> 48));
      value += static_cast<float>((sum - kMiddle) * scale);
    }
  }
}

double covered_area(const Outline& outline, const Paint& paint) {
  const Span span = pixels_of(outline.extent());
  double area = 0;
  for (std::int64_t y = span.y1; y < span.y2; ++y) {
    for (std::int64_t x = span.x1; x < span.x2; ++x) {
      area += covered_by(paint, outline.distance(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5));
    }
  }
  return area;
}

}  // namespace lockstep::detection
