// SPDX-License-Identifier: Apache-2.0
// All weak labels of one picture at once: scribbles, pseudo-labels and both distance maps. No torch header.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/decode.h"
#include "segmentation/synthetic/distance_map.h"
#include "segmentation/synthetic/pseudo_label.h"
#include "segmentation/synthetic/scribble.h"

namespace lockstep::segmentation {

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
