// SPDX-License-Identifier: Apache-2.0
// The eight shapes of the synthetic scenes: outlines, signed distances, exact boxes. They remain distinguishable down
// to 26 pixels, at any rotation and stretch. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep::detection {

enum class ShapeKind : std::uint8_t { kCircle, kTriangle, kCross, kStar, kRing, kBar, kCrescent, kHourglass };

/// The names, by ShapeKind.
inline constexpr std::array<std::string_view, 8> kShapeNames{"circle", "triangle", "cross",    "star",
                                                             "ring",   "bar",      "crescent", "hourglass"};

/// One shape at its position. Units: pixels; pixel (0, 0) covers 0 .. 1.
struct Shape {
  ShapeKind kind = ShapeKind::kCircle;
  double x = 0;        ///< its centre
  double y = 0;        ///<
  double area = 0;     ///< area enclosed by its outline
  double degrees = 0;  ///< clockwise rotation
  double stretch = 1;  ///< ratio of width to height, before the rotation
};

/// Corners in pixels.
struct Extent {
  double x1 = 0;
  double y1 = 0;
  double x2 = 0;
  double y2 = 0;
};

/// A shape's border as closed loops of straight lines; a loop within a loop is a hole.
class Outline {
 public:
  explicit Outline(const Shape& shape);

  /// The distance to the border; negative inside.
  [[nodiscard]] double distance(double x, double y) const noexcept;
  /// The smallest upright box around the shape.
  [[nodiscard]] const Extent& extent() const noexcept { return extent_; }

 private:
  struct Corner {
    double x;
    double y;
  };
  using Loop = std::vector<Corner>;
  static std::vector<Loop> unit_loops(ShapeKind kind);
  static double area_of(const std::vector<Loop>& loops) noexcept;

  std::vector<Loop> loops_;
  Extent extent_;
};

}  // namespace lockstep::detection
