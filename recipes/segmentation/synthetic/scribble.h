// SPDX-License-Identifier: Apache-2.0
// Draws scribbles like a human annotator's from full masks: a thin line along the middle of each region. No torch
// header.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/decode.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::segmentation {

/// A number for every pixel, as in 8-bit and 16-bit masks, row by row from the top.
struct NumberMap {
  ImageSize size;
  std::vector<std::uint16_t> values;
};

/// The meaning of the numbers.
enum class Numbers {
  kClasses,    ///< class ids; 255 is not a class
  kInstances,  ///< 0 is background, class 0; each other number is an object of class 1
};

struct ScribbleOptions {
  double coverage = 1.0;       ///< fraction of the regions that get a scribble
  std::int64_t thickness = 2;  ///< thickness of the line in pixels, 1 .. 3; 1 in regions thinner than 5 pixels
  double shrink = 0.3;         ///< fraction of the middle line that is omitted, counting both ends
};

/// Draws one scribble for each connected region (neighbours left, right, above and below) of one number, including the
/// background: part of the line along its middle, at least one pixel, wholly inside the region. Every other pixel is
/// kUnlabelled. All randomness comes from `random`, whose numbers are used in the order of the regions' first pixels.
/// Shapes: the result has one channel and holds classes. Throws: UsageError if an option is out of range.
[[nodiscard]] Image derive_scribbles(const NumberMap& numbers, Numbers meaning, const ScribbleOptions& options,
                                     SampleRandom& random);

/// Converts the map to classes. Throws: DataError if a class is above 255; the message does not name the file.
[[nodiscard]] Image classes_of(const NumberMap& numbers, Numbers meaning);
[[nodiscard]] NumberMap numbers_of(const Image& classes);

}  // namespace lockstep::segmentation
