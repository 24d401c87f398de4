// SPDX-License-Identifier: Apache-2.0
// Colours, grounds and shapes onto pixels. No torch header.
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

/// A colour that stands out from all of `others` by `least` at least, or as far as forty tries came.
[[nodiscard]] Ink ink_apart_from(std::span<const Ink> others, double least, SampleRandom& random);

/// How a shape is coloured.
struct Paint {
  Ink fill{};
  std::optional<Ink> edge = {};  ///< a line of another colour along the inside of the border
  double edge_width = 0;         ///< pixels
  bool hollow = false;           ///< nothing but the line
  double shade_x = 0;            ///< brightness grows so much for each pixel to the right,
  double shade_y = 0;            ///< and downwards
};

class ScenePixels : public common::Sketch<float> {
 public:
  using Sketch::Sketch;

  /// A texture between two colours that are near each other, which are returned.
  std::array<Ink, 2> paint_ground(SampleRandom& random);
  /// Anti-aliased.
  void paint(const Outline& outline, const Paint& paint);
  /// Normal noise of this deviation on every channel of its own.
  void add_normal_noise(double deviation, SampleRandom& random);
};

/// The share of each pixel that `paint` covers, summed up: COCO's area.
[[nodiscard]] double covered_area(const Outline& outline, const Paint& paint);

}  // namespace lockstep::detection
