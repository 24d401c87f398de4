// SPDX-License-Identifier: Apache-2.0
// The distance of each pixel from the nearest scribble, or from the nearest border between classes, as a weight in
// training. Exact, and linear in the number of pixels. No torch header.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "lockstep/data/decode.h"

namespace lockstep::segmentation {

/// The value is e: a scribble's weight falls to 0 at a distance of 155 pixels.
inline constexpr double kScribbleLambda = 2.718281828459045;
/// The value is e^6: the weight is full at 13 pixels from a border, so that small objects get some weight too.
inline constexpr double kContourLambda = 403.4287934927351;

/// The distance if there is no source.
inline constexpr std::int64_t kNoSource = std::numeric_limits<std::int64_t>::max();

/// The squared Euclidean distance of every pixel to the nearest source, measured in pixels between centres; all
/// kNoSource if there is no source. Shapes: one channel; any value except 0 is a source. Cost: O(pixels).
/// Source: Meijster, Roerdink and Hesselink, "A General Algorithm for Computing Distance Transforms in Linear Time".
[[nodiscard]] std::vector<std::int64_t> squared_distances(const Image& sources);

/// 1 for a pixel of a map with a neighbour (left, right, above, below) with a different value (kUnlabelled counts as a
/// value); otherwise 0. The edge of the image is not a contour.
[[nodiscard]] Image contours_of(const Image& labels);

/// 255 - min(sqrt(lambda d^2), 255), the minimum truncated to an integer; d is the distance to the nearest pixel that
/// is not kUnlabelled. Scribbles on the background count as well. 0 everywhere if nothing is labelled.
/// Throws: UsageError if lambda is not positive.
[[nodiscard]] Image scribble_distance_map(const Image& scribbles, double lambda = kScribbleLambda);

/// min(sqrt(lambda d^2), 255), truncated to an integer; d is the distance to the nearest pixel of contours_of(). 255
/// everywhere if there is no contour.
/// Throws: UsageError if lambda is not positive.
[[nodiscard]] Image class_distance_map(const Image& labels, double lambda = kContourLambda);

}  // namespace lockstep::segmentation
