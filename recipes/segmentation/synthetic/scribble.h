// SPDX-License-Identifier: Apache-2.0
// Scribbles as a person would draw them, made from full masks: a thin line along the middle of each region. No torch
// header.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/decode.h"
#include "lockstep/data/sample_random.h"

namespace lockstep::segmentation {

/// A number for every pixel, as masks of 8 and 16 bits hold them. Rows from the top.
struct NumberMap {
  ImageSize size;
  std::vector<std::uint16_t> values;
};

/// What the numbers are.
enum class Numbers {
  kClasses,    ///< a class each; 255 is none
  kInstances,  ///< 0 is background, class 0; each other number is a thing of class 1
};

struct ScribbleOptions {
  double coverage = 1.0;       ///< share of the regions that get a scribble
  std::int64_t thickness = 2;  ///< pixels of the line, 1 .. 3; 1 in regions that are thinner than 5 pixels
  double shrink = 0.3;         ///< share of the line along the middle that is left out, at its two ends
};

/// One scribble for each connected region (neighbours left, right, above and below) of one number, background
/// included: part of the line along its middle, at least one pixel, wholly inside of it. Everything else is
/// kUnlabelled. All chance comes from `random`; its numbers are taken in the order of the regions' first pixels.
/// Shapes: the result has one channel and holds classes. Throws: UsageError where an option is out of range.
[[nodiscard]] Image derive_scribbles(const NumberMap& numbers, Numbers meaning, const ScribbleOptions& options,
                                     SampleRandom& random);

/// The map as classes. Throws: DataError where a class is above 255; the message has no file's name.
[[nodiscard]] Image classes_of(const NumberMap& numbers, Numbers meaning);
[[nodiscard]] NumberMap numbers_of(const Image& classes);

}  // namespace lockstep::segmentation
