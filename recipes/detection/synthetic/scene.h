// SPDX-License-Identifier: Apache-2.0
// One synthetic scene: shapes on a ground, with the truth about them. No torch header.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detection/synthetic/scene_shapes.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::detection {

/// What is true of an object. Units: pixels.
struct SceneObject {
  ShapeKind kind = ShapeKind::kCircle;
  Extent box;          ///< tight around the whole shape, also where another one covers it
  double area = 0;     ///< that it is drawn on, also where another one covers it
  bool crowd = false;  ///< many shapes of one kind
  double visible = 1;  ///< share of it that no other one covers
};

struct Scene {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint8_t> pixels;  ///< rows from the top, three bytes each
  std::vector<SceneObject> objects;  ///< the lowest first; a crowd is one of them
};

/// How hard a set of scenes is.
enum class SceneObjects {
  /// One scene in ten is empty; the others hold 5 to 30 objects that cover 0.1 to 20 % of it each, 26 pixels at least.
  /// About 30 % of them lie partly under another one, and are at least half visible. One scene in six has a crowd.
  kMany,
  /// One to three circles, triangles and crosses that cover 5 to 15 % of the scene each, apart from each other and in
  /// one
  /// colour: a network learns them in a minute.
  kFew,
};

/// "many" or "few". Throws: UsageError naming the nearest.
[[nodiscard]] SceneObjects parse_scene_objects(const std::string& name);

/// The names of the kinds that such scenes hold, by ShapeKind.
[[nodiscard]] std::span<const std::string_view> kinds_in(SceneObjects objects) noexcept;

/// Kinds, colours, sizes, angles and places do not depend on each other. All chance comes from `random`.
[[nodiscard]] Scene make_scene(std::int64_t width, std::int64_t height, SceneObjects objects, SampleRandom& random);

}  // namespace lockstep::detection
