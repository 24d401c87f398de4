// SPDX-License-Identifier: Apache-2.0
// Resamples images to another size, bit for bit as Pillow does. No torch header.
#pragma once

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The resampling method.
enum class Interpolation {
  kNearest,   ///< for values that must not mix, such as classes
  kBilinear,  ///< a triangle filter, widened by the factor by which the image shrinks
  kBicubic,   ///< Keys' cubic with a = -0.5, widened in the same way
};

/// Returns `part` of the image, resampled to `size`; pixels outside do not contribute. It is antialiased, except with
/// kNearest.
/// Shapes: 1 or 3 channels. Throws: UsageError if a size is not positive, or the part is empty or extends outside.
/// Source: Pillow's Image.resize(size, resample, box), 8 bits per channel, weights in 22-bit fixed point.
[[nodiscard]] Image resample(const PixelView& view, const Box& part, ImageSize size,
                             Interpolation interpolation = Interpolation::kBilinear);

/// Resamples the whole image.
[[nodiscard]] Image resample(const PixelView& view, ImageSize size,
                             Interpolation interpolation = Interpolation::kBilinear);

}  // namespace lockstep

#pragma GCC visibility pop
