// SPDX-License-Identifier: Apache-2.0
// One synthetic image with the class of each of its pixels: patterned shapes on a background. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lockstep/data/decode.h"

namespace lockstep::segmentation {

/// Classes by id. A disc is dotted, a square striped, a triangle chequered and a ring shaded. Colours, sizes, angles
/// and positions do not depend on the class, and the background also has patches of all colours.
inline constexpr std::array<std::string_view, 5> kSceneClasses{"background", "disc", "square", "triangle", "ring"};

struct Scene {
  Image picture;  ///< three channels
  Image mask;     ///< one channel: classes
};

enum class SceneObjects {
  kMany,  ///< 2 to 6 shapes, each 15 to 45 % of the shorter side; they may overlap
  kFew,   ///< 1 to 3 shapes of 35 to 55 % on a plain background, with one colour per class: learned in a minute
};

/// Draws a scene, as a function of the arguments alone, with noise on every pixel. Shapes: `size` pixels.
/// Throws: UsageError if a side is not within 32 .. 4096.
[[nodiscard]] Scene make_scene(std::uint64_t seed, std::int64_t index, ImageSize size,
                               SceneObjects objects = SceneObjects::kMany);

}  // namespace lockstep::segmentation
