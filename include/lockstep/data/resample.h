// SPDX-License-Identifier: Apache-2.0
// Resampling of pictures to another size, with the same bits as Pillow's. No torch header.
#pragma once

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// How a pixel between pixels is computed.
enum class Interpolation {
  kNearest,   ///< for values that must not mix, such as classes
  kBilinear,  ///< a triangle, as wide as the pixels that it averages where the picture becomes smaller
  kBicubic,   ///< Keys' cubic with a = -0.5, widened in the same way
};

/// Returns `part` of the picture in another size; only pixels inside the part count. It is antialiased, except with
/// kNearest.
/// Shapes: 1 or 3 channels. Throws: UsageError where a size is not positive, or the part is empty or reaches outside.
/// Source: Pillow's Image.resize(size, resample, box), 8 bits a channel, weights in 22-bit fixed point.
[[nodiscard]] Image resample(const PixelView& view, const Box& part, ImageSize size,
                             Interpolation interpolation = Interpolation::kBilinear);

/// Resamples the whole picture.
[[nodiscard]] Image resample(const PixelView& view, ImageSize size,
                             Interpolation interpolation = Interpolation::kBilinear);

}  // namespace lockstep

#pragma GCC visibility pop
