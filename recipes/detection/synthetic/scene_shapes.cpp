// SPDX-License-Identifier: Apache-2.0
// Outlines as polygons: a single distance function handles them all, even when stretched.
#include "detection/synthetic/scene_shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace lockstep::detection {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr int kArc = 40;             // segments in a full circle: error below 0.05 pixels at a radius of 40
constexpr double kHole = 0.5;        // radius of the hole, as a fraction of the ring's
constexpr double kArm = 0.34;        // half the width of the cross's arms
constexpr double kThickness = 0.28;  // ratio of height to width of the bar
constexpr double kNotch = 0.42;      // inner radius of the star
constexpr double kBite = 0.82;       // radius of the circle cut out of the crescent
constexpr double kBiteAt = 0.5;      // distance of that circle from the crescent's centre
constexpr double kWaist = 0.12;      // half the width of the hourglass's waist

}  // namespace

std::vector<Outline::Loop> Outline::unit_loops(ShapeKind kind) {
  const auto arc = [](double radius, double from, double to, double at, Loop& loop) {
    const int lines = std::max(2, static_cast<int>(std::ceil(kArc * std::abs(to - from) / (2 * kPi))));
    for (int i = 0; i <= lines; ++i) {
      const double angle = from + (to - from) * i / lines;
      loop.push_back({at + radius * std::cos(angle), radius * std::sin(angle)});
    }
  };
  const auto polygon = [](int corners, double outer, double inner) {
    Loop loop;
    for (int i = 0; i < corners; ++i) {
      const double angle = 2 * kPi * i / corners - kPi / 2;
      const double radius = i % 2 == 0 ? outer : inner;
      loop.push_back({radius * std::cos(angle), radius * std::sin(angle)});
    }
    return loop;
  };
  switch (kind) {
    case ShapeKind::kCircle:
      return {polygon(kArc, 1, 1)};
    case ShapeKind::kRing: {
      Loop hole = polygon(kArc, kHole, kHole);
      std::ranges::reverse(hole);
      return {polygon(kArc, 1, 1), hole};
    }
    case ShapeKind::kTriangle:
      return {polygon(3, 1, 1)};
    case ShapeKind::kStar:
      return {polygon(10, 1, kNotch)};
    case ShapeKind::kCross: {
      const double a = kArm;
      return {
          {{-a, -1}, {a, -1}, {a, -a}, {1, -a}, {1, a}, {a, a}, {a, 1}, {-a, 1}, {-a, a}, {-1, a}, {-1, -a}, {-a, -a}}};
    }
    case ShapeKind::kBar:
      return {{{-1, -kThickness}, {1, -kThickness}, {1, kThickness}, {-1, kThickness}}};
    case ShapeKind::kHourglass:
      return {{{-0.8, -1}, {0.8, -1}, {kWaist, 0}, {0.8, 1}, {-0.8, 1}, {-kWaist, 0}}};
    case ShapeKind::kCrescent: {
      // The angles of the two circles' intersection points, as seen from each centre.
      const double x = (1 - kBite * kBite + kBiteAt * kBiteAt) / (2 * kBiteAt);
      const double tip = std::acos(x);
      const double bite = std::acos((x - kBiteAt) / kBite);
      Loop loop;
      arc(1, tip, 2 * kPi - tip, 0, loop);
      arc(kBite, 2 * kPi - bite, bite, kBiteAt, loop);
      return {loop};
    }
  }
  return {};
}

double Outline::area_of(const std::vector<Loop>& loops) noexcept {
  double twice = 0;
  for (const Loop& loop : loops) {
    for (std::size_t i = 0; i < loop.size(); ++i) {
      const Corner& a = loop[i];
      const Corner& b = loop[(i + 1) % loop.size()];
      twice += a.x * b.y - b.x * a.y;
    }
  }
  return std::abs(twice) / 2;
}

Outline::Outline(const Shape& shape) : loops_(unit_loops(shape.kind)) {
  const double scale = std::sqrt(shape.area / area_of(loops_));
  const double angle = shape.degrees * kPi / 180;
  const double wide = scale * std::sqrt(shape.stretch);
  const double high = scale / std::sqrt(shape.stretch);
  constexpr double kFar = std::numeric_limits<double>::max();
  extent_ = {kFar, kFar, -kFar, -kFar};
  for (Loop& loop : loops_) {
    for (Corner& corner : loop) {
      const double x = corner.x * wide;
      const double y = corner.y * high;
      corner = {shape.x + x * std::cos(angle) - y * std::sin(angle),
                shape.y + x * std::sin(angle) + y * std::cos(angle)};
      extent_ = {std::min(extent_.x1, corner.x), std::min(extent_.y1, corner.y), std::max(extent_.x2, corner.x),
                 std::max(extent_.y2, corner.y)};
    }
  }
}

double Outline::distance(double x, double y) const noexcept {
  double nearest = std::numeric_limits<double>::max();
  bool inside = false;
  for (const Loop& loop : loops_) {
    for (std::size_t i = 0; i < loop.size(); ++i) {
      const Corner& a = loop[i];
      const Corner& b = loop[i + 1 == loop.size() ? 0 : i + 1];
      const double dx = b.x - a.x;
      const double dy = b.y - a.y;
      const double length = dx * dx + dy * dy;
      const double along = length > 0 ? std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length, 0.0, 1.0) : 0.0;
      const double off_x = a.x + along * dx - x;
      const double off_y = a.y + along * dy - y;
      nearest = std::min(nearest, off_x * off_x + off_y * off_y);
      if ((a.y > y) != (b.y > y) && x < a.x + dx * (y - a.y) / dy) inside = !inside;
    }
  }
  return inside ? -std::sqrt(nearest) : std::sqrt(nearest);
}

}  // namespace lockstep::detection
