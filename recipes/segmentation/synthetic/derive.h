// SPDX-License-Identifier: Apache-2.0
// A class for nearly every pixel, guessed from little; and all weak labels of one picture at once: scribbles,
// pseudo-labels and both distance maps. No torch header.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/decode.h"
#include "lockstep/data/sample_random.h"
#include "segmentation/synthetic/distance_map.h"
#include "segmentation/synthetic/scribble.h"

namespace lockstep::segmentation {

/// What a flood pays on its way, in the contrast of the picture (1: from its darkest 1 % to its brightest 1 %).
struct FloodOptions {
  double step = 0.001;   ///< for each pixel
  double edge = 2.0;     ///< times the change from one pixel to the next
  double strange = 1.0;  ///< times the share, 0 .. 1, in which a pixel's colour belongs to the other classes' scribbles
  double likeness = 0.1;  ///< colours this far apart are alike
};

/// Floods the picture from its scribbles, where it is cheapest first; a pixel has the class of the flood that comes
/// first. Nothing but picture and scribbles is looked at. kUnlabelled is the seam, one pixel wide, between two classes,
/// and everything where there is no scribble.
/// Shapes: `picture` has three channels, `scribbles` one, both of one size. Throws: UsageError where they do not.
/// Source: Meyer's watershed with markers; that costs add up on the way as in Bai and Sapiro's geodesic matting.
[[nodiscard]] Image watershed_labels(const Image& picture, const Image& scribbles, const FloodOptions& options = {});

struct CoarseOptions {
  std::int64_t cell = 8;     ///< pixels: a cell has one class
  double shift = 0.25;       ///< share of a cell by which a smooth random field moves borders, at most, either way
  double least_share = 0.6;  ///< share of a cell: where no class has this much, it is kUnlabelled
};

/// The full mask as a weak classifier would see it: cells of one class, with moved borders.
/// Throws: UsageError where an option is out of range.
[[nodiscard]] Image coarse_labels(const Image& mask, const CoarseOptions& options, SampleRandom& random);

/// Where pseudo-labels come from.
enum class PseudoMethod {
  kWatershed,  ///< picture and scribbles
  kCoarse,     ///< the full mask, seen coarsely
};
/// "watershed" or "coarse". Throws: UsageError.
[[nodiscard]] PseudoMethod parse_pseudo_method(const std::string& name);

struct WeakOptions {
  std::uint64_t seed = 0;
  ScribbleOptions scribbles = {};
  PseudoMethod method = PseudoMethod::kWatershed;
  CoarseOptions coarse = {};
  double scribble_lambda = kScribbleLambda;
  double contour_lambda = kContourLambda;
};

struct WeakLabels {
  Image scribbles;
  Image pseudo_labels;
  Image scribble_distances;
  Image class_distances;
};

/// A function of its arguments; `index` is the picture's place in its set.
/// Throws: UsageError where an option is out of range or picture and mask differ in size.
[[nodiscard]] WeakLabels derive_weak_labels(const Image& picture, const NumberMap& mask, Numbers meaning,
                                            const WeakOptions& options, std::int64_t index);

/// The chance of picture `index`, for scribbles; that of coarse labels follows from it, too.
[[nodiscard]] SampleRandom scribble_random(std::uint64_t seed, std::int64_t index);
[[nodiscard]] SampleRandom coarse_random(std::uint64_t seed, std::int64_t index);

}  // namespace lockstep::segmentation
