// SPDX-License-Identifier: Apache-2.0
// Paints colours, backgrounds and shapes onto pixels. No torch header.
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

/// The distance between two colours: 0 .. 255 times the square root of 3.
[[nodiscard]] double ink_distance(const Ink& a, const Ink& b) noexcept;

/// Returns a colour that differs from all of `others` by at least `least`, or the most distant of forty random colours.
[[nodiscard]] Ink ink_apart_from(std::span<const Ink> others, double least, SampleRandom& random);

/// The colouring of a shape.
struct Paint {
  Ink fill{};
  std::optional<Ink> edge = {};  ///< a line of a different colour along the inside of the border
  double edge_width = 0;         ///< pixels
  bool hollow = false;           ///< draw only the line
  double shade_x = 0;            ///< brightness gained per pixel to the right
  double shade_y = 0;            ///< brightness gained per pixel downwards
};

class ScenePixels : public common::Sketch<float> {
 public:
  using Sketch::Sketch;

  /// Paints a texture between two similar colours, and returns the colours.
  std::array<Ink, 2> paint_ground(SampleRandom& random);
  /// Paints the outline with anti-aliasing.
  void paint(const Outline& outline, const Paint& paint);
  /// Adds independent normal noise of this standard deviation to every channel.
  void add_normal_noise(double deviation, SampleRandom& random);
};

/// Returns the sum over all pixels of the fraction that `paint` covers: COCO's area.
[[nodiscard]] double covered_area(const Outline& outline, const Paint& paint);

}  // namespace lockstep::detection
