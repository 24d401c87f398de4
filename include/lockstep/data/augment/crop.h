// SPDX-License-Identifier: Apache-2.0
// Crops, and borders around images. Boxes are clipped to the remaining part of the image. A box that becomes empty
// stays in the list; SanitizeBoxes drops it.
#pragma once

#include <array>

#include "lockstep/data/resample.h"
#include "lockstep/data/sample_random.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The colour outside the image, by channel; gray images use the first.
using Color = std::array<std::uint8_t, 3>;

/// Crops a part of random area and aspect ratio, and resizes it. Only that part of a JPEG is decoded.
/// Source: torchvision's RandomResizedCrop.
struct RandomResizedCrop {
  ImageSize size{224, 224};                                ///< size of the result
  double min_scale = 0.08;                                 ///< smallest fraction of the image's area
  double max_scale = 1.0;                                  ///< largest fraction of the area
  double min_ratio = 3.0 / 4.0;                            ///< smallest ratio of width to height
  double max_ratio = 4.0 / 3.0;                            ///< largest ratio of width to height
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  /// Decodes a JPEG at 1/2, 1/4 or 1/8 of its size if the cropped part is large enough. This is faster, but the result
  /// is not bit-identical to Pillow's.
  bool shrink_while_decoding = true;

  /// Draws the part to crop from an image of this size.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Throws: DataError naming the file that cannot be decoded.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Crops the centre. An image smaller than the result gets a border first. Source: torchvision's CenterCrop.
struct CenterCrop {
  ImageSize size{224, 224};  ///< size of the result
  Color fill{};              ///< colour of the border

  /// Returns the region, which may extend outside the image.
  [[nodiscard]] Region region_of(ImageSize picture) const;
  void operator()(AnnotatedImage& image) const;
};

/// Adds a border, in pixels.
struct Pad {
  std::int64_t left = 0;    ///< width of the left border
  std::int64_t top = 0;     ///< height of the top border
  std::int64_t right = 0;   ///< width of the right border
  std::int64_t bottom = 0;  ///< height of the bottom border
  Color fill{};             ///< colour of the border

  void operator()(AnnotatedImage& image) const;
};

/// Adds a border of `padding` pixels, and crops a part of the requested size at a random position. An image that is
/// still too small gets a wider border on both sides. Source: torchvision's RandomCrop with pad_if_needed.
struct RandomCrop {
  ImageSize size{32, 32};    ///< size of the result
  std::int64_t padding = 0;  ///< width of the border that is added first, in pixels
  Color fill{};              ///< colour of the border

  /// Draws the region, in pixels of the image without its border; the region may extend outside the image.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Crops the region; pixels outside the image get the border's colour.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
