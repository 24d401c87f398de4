// SPDX-License-Identifier: Apache-2.0
#include "captioning/synthetic/scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "common/sketch.h"

namespace lockstep::captioning {
namespace {

using Sketch = common::Sketch<float>;
using Tint = Sketch::Tint;

constexpr std::array<Tint, kShapeColors> kShapeTints{
    {{220, 40, 40}, {40, 165, 60}, {45, 80, 215}, {240, 220, 50}, {245, 140, 25}, {140, 50, 170}, {245, 245, 245}}};
constexpr std::array<Tint, kGroundColors> kGroundTints{{{24, 24, 28}, {128, 128, 132}, {105, 70, 45}, {238, 175, 190}}};
constexpr int kTaps = 3;  // samples per pixel at an edge, in each direction

Tint shaken(Tint tint, double most, SampleRandom& random) {
  for (float& channel : tint) channel += static_cast<float>(random.uniform(-most, most));
  return tint;
}

/// The distance at this angle from a star's centre to its edge; the tips are at distance 1.
double star_edge(double angle) {
  constexpr double kPoint = 2.0 * std::numbers::pi / 5.0;
  constexpr double kInner = 0.45;  // radius of the notches
  double off = std::fmod(angle, kPoint);
  if (off < 0) off += kPoint;
  off = std::min(off, kPoint - off);  // angle from the nearest tip
  // The edge runs from the tip (1, angle 0) to the notch (kInner, angle kPoint / 2).
  const double notch_x = kInner * std::cos(kPoint / 2);
  const double notch_y = kInner * std::sin(kPoint / 2);
  return notch_y / (notch_y * std::cos(off) + (1.0 - notch_x) * std::sin(off));
}

/// True if the shape contains the point (u, v). The circle around the shape has radius 1, and v grows downwards.
bool holds(ShapeKind kind, double u, double v) {
  switch (kind) {
    case ShapeKind::kCircle:
      return std::hypot(u, v) <= 0.92;
    case ShapeKind::kSquare:
      return std::max(std::abs(u), std::abs(v)) <= 0.78;
    case ShapeKind::kTriangle:
      return v <= 0.6 && v >= std::sqrt(3.0) * std::abs(u) - 0.98;
    case ShapeKind::kStar:
      return std::hypot(u, v) <= star_edge(std::atan2(u, -v));
    case ShapeKind::kCross:
      return std::max(std::abs(u), std::abs(v)) <= 0.9 && std::min(std::abs(u), std::abs(v)) <= 0.3;
    case ShapeKind::kRing: {
      const double far = std::hypot(u, v);
      return far <= 0.95 && far >= 0.55;
    }
  }
  return false;
}

class ScenePainter : public Sketch {
 public:
  ScenePainter(const Scene& scene, ImageSize size)
      : Sketch(size),
        width_(static_cast<double>(size.width)),
        height_(static_cast<double>(size.height)),
        random_(scene.texture) {}

  /// Paints the background: brighter towards one side, with a few soft patches.
  void paint_ground(GroundColor color) {
    const Tint ground = shaken(kGroundTints[static_cast<std::size_t>(color)], 10, random_);
    const double from = random_.uniform(0.0, 2.0 * std::numbers::pi);
    const double light = random_.uniform(0.0, 40.0);
    const double dx = std::cos(from) * light / width_;
    const double dy = std::sin(from) * light / height_;
    for (std::int64_t y = 0; y < size().height; ++y) {
      for (std::int64_t x = 0; x < size().width; ++x) {
        const auto more = static_cast<float>(dx * (static_cast<double>(x) - width_ / 2) +
                                             dy * (static_cast<double>(y) - height_ / 2));
        for (std::size_t i = 0; i < 3; ++i) at(x, y)[i] = ground[i] + more;
      }
    }
    const std::int64_t patches = random_.between(0, 4);
    for (std::int64_t i = 0; i < patches; ++i) paint_patch();
  }

  void paint(const SceneShape& shape) {
    const Tint fill = shaken(kShapeTints[static_cast<std::size_t>(shape.color)], 14, random_);
    const double radius = shape.radius * std::min(width_, height_);
    const double cosine = std::cos(shape.angle) / radius;
    const double sine = std::sin(shape.angle) / radius;
    each_near(shape.x * width_, shape.y * height_, radius, [&](std::size_t at, double dx, double dy) {
      int inside = 0;
      for (int tap = 0; tap < kTaps * kTaps; ++tap) {
        const double tx = dx + (tap % kTaps - 1) / static_cast<double>(kTaps);
        const double ty = dy + (tap / kTaps - 1) / static_cast<double>(kTaps);
        inside += holds(shape.kind, cosine * tx + sine * ty, cosine * ty - sine * tx) ? 1 : 0;
      }
      mix(tints()[at], fill, static_cast<float>(inside) / (kTaps * kTaps));
    });
  }

  Image done(double noise) {
    add_noise(noise, random_);
    return rounded();
  }

 private:
  void paint_patch() {
    const Tint tint = random_tint(random_);
    const double radius = random_.uniform(0.08, 0.25) * std::min(width_, height_);
    const double x = random_.uniform(0.0, width_);
    const double y = random_.uniform(0.0, height_);
    each_near(x, y, 2 * radius, [&](std::size_t at, double dx, double dy) {
      mix(tints()[at], tint, static_cast<float>(0.16 * std::exp(-(dx * dx + dy * dy) / (radius * radius))));
    });
  }

  static void mix(Tint& tint, const Tint& other, float share) {
    for (std::size_t i = 0; i < 3; ++i) tint[i] += share * (other[i] - tint[i]);
  }

  double width_;
  double height_;
  SampleRandom random_;
};

}  // namespace

Image paint_scene(const Scene& scene, ImageSize size) {
  common::require_scene_size(size);
  ScenePainter painter(scene, size);
  painter.paint_ground(scene.ground);
  for (const SceneShape& shape : scene.shapes) painter.paint(shape);
  return painter.done(scene.noise);
}

}  // namespace lockstep::captioning
