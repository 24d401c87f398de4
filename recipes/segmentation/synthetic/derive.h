// SPDX-License-Identifier: Apache-2.0
// Guesses a class for nearly every pixel from a few labels, and creates all weak labels of an image: scribbles,
// pseudo-labels and both distance maps. No torch header.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/decode.h"
#include "lockstep/data/sample_random.h"
#include "segmentation/synthetic/distance_map.h"
#include "segmentation/synthetic/scribble.h"

namespace lockstep::segmentation {

/// The costs of a flood's path, in units of the image's contrast (1: from its darkest 1 % to its brightest 1 %).
struct FloodOptions {
  double step = 0.001;    ///< cost per pixel
  double edge = 2.0;      ///< weight of the change from one pixel to the next
  double strange = 1.0;   ///< weight of the degree, 0 .. 1, to which a pixel's colour matches other classes' scribbles
  double likeness = 0.1;  ///< distance at which two colours still count as alike
};

/// Floods the image from its scribbles, cheapest pixel first; a pixel gets the class of the flood that reaches it
/// first. Uses only the image and the scribbles. kUnlabelled marks the seam between two classes, one pixel wide, and
/// every pixel if there are no scribbles.
/// Shapes: `picture` has three channels, `scribbles` one, both of the same size. Throws: UsageError for other shapes.
/// Source: Meyer's watershed with markers; costs are summed along the path, as in Bai and Sapiro's geodesic matting.
[[nodiscard]] Image watershed_labels(const Image& picture, const Image& scribbles, const FloodOptions& options = {});

struct CoarseOptions {
  std::int64_t cell = 8;     ///< side of a cell in pixels; a cell has one class
  double shift = 0.25;       ///< largest shift of a border by a smooth random field, as a fraction of a cell
  double least_share = 0.6;  ///< fraction of a cell that a class must cover; if none does, the cell is kUnlabelled
};

/// The full mask as a weak classifier would see it: cells of one class each, with shifted borders.
/// Throws: UsageError if an option is out of range.
[[nodiscard]] Image coarse_labels(const Image& mask, const CoarseOptions& options, SampleRandom& random);

/// The sources of pseudo-labels.
enum class PseudoMethod {
  kWatershed,  ///< the image and its scribbles
  kCoarse,     ///< the full mask, coarsened
};
/// Parses "watershed" or "coarse". Throws: UsageError.
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

/// Creates all weak labels of one image from the arguments alone; `index` is the image's index in its set.
/// Throws: UsageError if an option is out of range, or image and mask differ in size.
[[nodiscard]] WeakLabels derive_weak_labels(const Image& picture, const NumberMap& mask, Numbers meaning,
                                            const WeakOptions& options, std::int64_t index);

/// The random numbers of image `index`, for scribbles and for coarse labels.
[[nodiscard]] SampleRandom scribble_random(std::uint64_t seed, std::int64_t index);
[[nodiscard]] SampleRandom coarse_random(std::uint64_t seed, std::int64_t index);

}  // namespace lockstep::segmentation
