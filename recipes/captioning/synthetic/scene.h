// SPDX-License-Identifier: Apache-2.0
// The content of a synthetic image: a few shapes in distinct places; its pixels, and several speakers' captions. No
// torch header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::captioning {

enum class ShapeKind : std::uint8_t { kCircle, kSquare, kTriangle, kStar, kCross, kRing };
enum class ShapeColor : std::uint8_t { kRed, kGreen, kBlue, kYellow, kOrange, kPurple, kWhite };
enum class ShapeSize : std::uint8_t { kSmall, kMedium, kBig };
enum class GroundColor : std::uint8_t { kBlack, kGray, kBrown, kPink };

inline constexpr std::size_t kShapeKinds = 6;
inline constexpr std::size_t kShapeColors = 7;
inline constexpr std::size_t kShapeSizes = 3;
inline constexpr std::size_t kGroundColors = 4;

/// A shape in one of nine cells. Units: the image's width and height are 1.
struct SceneShape {
  ShapeKind kind = ShapeKind::kCircle;
  ShapeColor color = ShapeColor::kRed;
  ShapeSize size = ShapeSize::kMedium;
  std::int64_t column = 0;  ///< 0 left, 1, 2 right
  std::int64_t row = 0;     ///< 0 top, 1, 2 bottom
  double x = 0.5;           ///< its centre, near the centre of its cell
  double y = 0.5;
  double radius = 0.1;  ///< radius of the circle around it; circles do not touch
  double angle = 0;     ///< radians
};

struct Scene {
  std::vector<SceneShape> shapes;  ///< 2 to 4, the most noticeable first: big ones, then those near the middle
  GroundColor ground = GroundColor::kGray;
  double noise = 10;           ///< maximum change to a channel, out of 255
  std::uint64_t texture = 0;   ///< seed of background, light and noise
  std::uint64_t captions = 0;  ///< seed of the captions
};

/// Creates a scene that depends only on the arguments. At most two shapes have the same kind and colour.
[[nodiscard]] Scene make_scene(std::uint64_t seed, std::int64_t index);

inline constexpr std::size_t kSceneCaptions = 5;

/// kSceneCaptions different captions of 4 to 14 words, all true. They differ in the same ways as people's captions: in
/// their first words, the relation mentioned (left, right, above, below, a corner, the middle), in whether they mention
/// sizes, the number or the background, in synonyms, and in form (sentence or fragment). Most begin with the most
/// noticeable shape.
[[nodiscard]] std::vector<std::string> scene_captions(const Scene& scene);

/// The pixels of a scene: shapes with soft edges on a patchy background lit from one side, with noise on every channel.
/// Three channels; the same scene and size give the same bytes. Shapes keep their proportions: the shorter side
/// determines their size. Throws: UsageError if a side is not within 32 .. 4096 pixels.
[[nodiscard]] Image paint_scene(const Scene& scene, ImageSize size);

}  // namespace lockstep::captioning
