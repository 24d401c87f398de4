// SPDX-License-Identifier: Apache-2.0
#include "captioning/synthetic/scene.h"

#include <algorithm>
#include <cmath>

#include "lockstep/data/sample_random.h"

namespace lockstep::captioning {
namespace {

constexpr std::uint64_t kSceneStream = 0x6361707469000000;  // random stream; differs from those of other recipes
constexpr std::array<double, kShapeSizes> kRadii{0.07, 0.1, 0.145};
constexpr double kPairs = 0.3;      // fraction of images with three or four shapes that have a pair
constexpr double kSway = 0.02;      // maximum shift of a shape's centre from its cell's centre, in either direction
constexpr double kMostTurn = 0.22;  // radians: keeps a square from becoming a diamond

template <class Enum>
Enum any_of(std::size_t count, SampleRandom& random) {
  return static_cast<Enum>(random.below(count));
}

bool looks_like(const SceneShape& a, const SceneShape& b) { return a.kind == b.kind && a.color == b.color; }

/// A shape that looks different from all of `others`.
SceneShape new_shape(const std::vector<SceneShape>& others, SampleRandom& random) {
  SceneShape shape;
  do {
    shape.kind = any_of<ShapeKind>(kShapeKinds, random);
    shape.color = any_of<ShapeColor>(kShapeColors, random);
  } while (std::ranges::any_of(others, [&](const SceneShape& other) { return looks_like(shape, other); }));
  return shape;
}

void place(SceneShape& shape, std::int64_t cell, SampleRandom& random) {
  shape.column = cell % 3;
  shape.row = cell / 3;
  shape.x = (static_cast<double>(shape.column) + 0.5) / 3.0 + random.uniform(-kSway, kSway);
  shape.y = (static_cast<double>(shape.row) + 0.5) / 3.0 + random.uniform(-kSway, kSway);
  shape.radius = kRadii[static_cast<std::size_t>(shape.size)];
  shape.angle = random.uniform(-kMostTurn, kMostTurn);
}

/// Larger shapes are noticed first; among equally large ones, the one nearer to the middle.
bool is_noticed_first(const SceneShape& a, const SceneShape& b) {
  const auto far = [](const SceneShape& shape) { return std::abs(shape.column - 1) + std::abs(shape.row - 1); };
  if (a.size != b.size) return a.size > b.size;
  return far(a) < far(b);
}

}  // namespace

Scene make_scene(std::uint64_t seed, std::int64_t index) {
  SampleRandom random(seed ^ kSceneStream, 0, static_cast<std::uint64_t>(index));
  Scene scene;
  const std::int64_t count = random.between(2, 4);
  const bool pair = count > 2 && random.chance(kPairs);
  std::array<std::int64_t, 9> cells{0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (std::int64_t i = 0; i < count; ++i) {
    SceneShape shape = pair && i == 1 ? scene.shapes.front() : new_shape(scene.shapes, random);
    if (!pair || i != 1) shape.size = any_of<ShapeSize>(kShapeSizes, random);
    const auto first = static_cast<std::size_t>(i);
    std::swap(cells[first], cells[first + random.below(cells.size() - first)]);
    place(shape, cells[first], random);
    scene.shapes.push_back(shape);
  }
  std::stable_sort(scene.shapes.begin(), scene.shapes.end(), is_noticed_first);
  scene.ground = any_of<GroundColor>(kGroundColors, random);
  scene.noise = random.uniform(4.0, 24.0);
  scene.texture = random();
  scene.captions = random();
  return scene;
}

}  // namespace lockstep::captioning
