// SPDX-License-Identifier: Apache-2.0
// How far each pixel is from the next scribble, or from the next border between classes: the weights with which
// training trusts what lies between. Exact, in time linear in the pixels. No torch header.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::segmentation {

/// e: a scribble's weight has gone 155 pixels away from it.
inline constexpr double kScribbleLambda = 2.718281828459045;
/// e^6: full weight 13 pixels inside of a border, so that small things have some, too.
inline constexpr double kContourLambda = 403.4287934927351;

/// The distance where there is no source.
inline constexpr std::int64_t kNoSource = std::numeric_limits<std::int64_t>::max();

/// The squared Euclidean distance of every pixel to the nearest source, in pixels between their middles; kNoSource
/// everywhere where there is none. Shapes: one channel, anything but 0 is a source. Cost: O(pixels).
/// Source: Meijster, Roerdink and Hesselink, "A General Algorithm for Computing Distance Transforms in Linear Time".
[[nodiscard]] std::vector<std::int64_t> squared_distances(const Image& sources);

/// 1 where a pixel of a map has a neighbour (left, right, above, below) of another value, kUnlabelled included; else 0.
/// The picture's own border is none.
[[nodiscard]] Image contours_of(const Image& labels);

/// 255 - min(sqrt(lambda d^2), 255), that cut to a whole number; d is the distance to the nearest pixel that is not
/// kUnlabelled. Scribbles on the background count as all others. 0 everywhere where nothing is labelled.
/// Throws: UsageError where lambda is not positive.
[[nodiscard]] Image scribble_distance_map(const Image& scribbles, double lambda = kScribbleLambda);

/// min(sqrt(lambda d^2), 255), cut to a whole number; d is the distance to the nearest pixel of contours_of(). 255
/// everywhere where there is no contour.
/// Throws: as above.
[[nodiscard]] Image class_distance_map(const Image& labels, double lambda = kContourLambda);

}  // namespace lockstep::segmentation
