// SPDX-License-Identifier: Apache-2.0
// Resizes whole images with their boxes, points, masks and maps; masks and maps are resampled without mixing values.
#pragma once

#include "lockstep/data/resample.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Resizes to `size`, without keeping the aspect ratio. Source: torchvision's Resize with two numbers.
struct Resize {
  ImageSize size{224, 224};                                ///< size of the result
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  /// Decodes a JPEG at 1/2, 1/4 or 1/8 of its size if it is large enough. This is faster, but the result is not
  /// bit-identical to Pillow's.
  bool shrink_while_decoding = false;

  /// Throws: DataError naming the file that cannot be decoded.
  void operator()(AnnotatedImage& image) const;
};

/// Resizes and keeps the aspect ratio: the shorter side becomes `shorter` pixels, or fewer if the longer side would
/// otherwise exceed `longest`. Source: torchvision's Resize with one number and max_size.
struct ResizeShorter {
  std::int64_t shorter = 256;  ///< length of the shorter side, in pixels
  std::int64_t longest = 0;    ///< maximum length of the longer side, in pixels; 0: no limit
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  bool shrink_while_decoding = false;                      ///< as in Resize

  /// Returns the new size of an image of this size.
  [[nodiscard]] ImageSize size_of(ImageSize size) const;
  void operator()(AnnotatedImage& image) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
