// SPDX-License-Identifier: Apache-2.0
// One synthetic scene: shapes on a background, with their annotations. No torch header.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detection/synthetic/scene_shapes.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::detection {

/// The annotation of an object. Units: pixels.
struct SceneObject {
  ShapeKind kind = ShapeKind::kCircle;
  Extent box;          ///< tight around the whole shape, covered parts included
  double area = 0;     ///< the drawn area, covered parts included
  bool crowd = false;  ///< many shapes of one kind
  double visible = 1;  ///< fraction of the area that no other object covers
};

struct Scene {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels;  ///< rows from the top, three bytes per pixel
  std::vector<SceneObject> objects;  ///< lowest first; a crowd is one object
};

/// The difficulty of a set of scenes.
enum class SceneObjects {
  /// One scene in ten is empty; the others hold 5 to 30 objects of 0.1 to 20 % of the scene and at least 26 pixels.
  /// About 30 % of them are partly covered by another object, but at least half visible. One scene in six has a crowd.
  kMany,
  /// One to three circles, triangles and crosses, each covering 5 to 15 % of the scene, not touching and of a single
  /// colour: a network learns them in a minute.
  kFew,
};

/// Parses "many" or "few". Throws: UsageError that suggests the nearest name.
[[nodiscard]] SceneObjects parse_scene_objects(const std::string& name);

/// The names of the kinds in scenes of this difficulty, by ShapeKind.
[[nodiscard]] std::span<const std::string_view> kinds_in(SceneObjects objects) noexcept;

/// Draws a scene. Kinds, colours, sizes, angles and positions are independent; all randomness comes from `random`.
[[nodiscard]] Scene make_scene(std::int64_t width, std::int64_t height, SceneObjects objects, SampleRandom& random);

}  // namespace lockstep::detection
