// SPDX-License-Identifier: Apache-2.0
// Paints colours, grounds and shapes onto pixels. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "common/sketch.h"
#include "detection/synthetic/scene_shapes.h"

namespace lockstep::detection {

/// Red, green, blue in 0 .. 255.
using Ink = common::Sketch<float>::Tint;

/// 0 .. 255 times the square root of 3.
[[nodiscard]] double ink_distance(const Ink& a, const Ink& b) noexcept;

/// Returns a colour that differs from all of `others` by at least `least`, or the farthest of forty tries.
[[nodiscard]] Ink ink_apart_from(std::span<const Ink> others, double least, SampleRandom& random);

/// The colouring of a shape.
struct Paint {
  Ink fill{};
  std::optional<Ink> edge = {};  ///< a line of another colour along the inside of the border
  double edge_width = 0;         ///< pixels
  bool hollow = false;           ///< only the line is drawn
  double shade_x = 0;            ///< brightness gained per pixel to the right
  double shade_y = 0;            ///< brightness gained per pixel downwards
};

class ScenePixels : public common::Sketch<float> {
 public:
  using Sketch::Sketch;

  /// Paints a texture between two similar colours, and returns these.
  std::array<Ink, 2> paint_ground(SampleRandom& random);
  /// Paints with anti-aliasing.
  void paint(const Outline& outline, const Paint& paint);
  /// Adds normal noise of this deviation to every channel separately.
  void add_normal_noise(double deviation, SampleRandom& random);
};

/// Sums the share of each pixel that `paint` covers: COCO's area.
[[nodiscard]] double covered_area(const Outline& outline, const Paint& paint);

}  // namespace lockstep::detection
