// SPDX-License-Identifier: Apache-2.0
// Parts of pictures, and pictures with a border. Boxes are clipped to the remaining part and keep their place in the
// list even if they are empty; SanitizeBoxes drops those.
#pragma once

#include <array>

#include "lockstep/data/resample.h"
#include "lockstep/data/sample_random.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The colour outside the picture, by channel; gray pictures use the first.
using Color = std::array<std::uint8_t, 3>;

/// Cuts a part of random area and shape, and resizes it. Only that part of a JPEG is decoded.
/// Source: torchvision's RandomResizedCrop.
struct RandomResizedCrop {
  ImageSize size{224, 224};                                ///< size of the result
  double min_scale = 0.08;                                 ///< share of the picture's area
  double max_scale = 1.0;                                  ///< largest share of the area
  double min_ratio = 3.0 / 4.0;                            ///< width to height
  double max_ratio = 4.0 / 3.0;                            ///< largest ratio
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  /// Decodes a part of a JPEG of at least twice the size at a half, quarter or eighth: faster, but not Pillow's bits.
  bool shrink_while_decoding = true;

  /// Draws the part of a picture of this size.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Throws: DataError naming the file that cannot be decoded.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Cuts the middle; a smaller picture gets a border first.
/// Source: torchvision's CenterCrop.
struct CenterCrop {
  ImageSize size{224, 224};  ///< size of the result
  Color fill{};              ///< colour of the border

  /// Returns the region, which may extend outside the picture.
  [[nodiscard]] Region region_of(ImageSize picture) const;
  void operator()(AnnotatedImage& image) const;
};

/// Adds a border, in pixels.
struct Pad {
  std::int64_t left = 0;    ///< width of the left border
  std::int64_t top = 0;     ///< height of the upper border
  std::int64_t right = 0;   ///< width of the right border
  std::int64_t bottom = 0;  ///< height of the lower border
  Color fill{};             ///< colour of the border

  void operator()(AnnotatedImage& image) const;
};

/// Cuts a part of the wanted size anywhere in the picture with a border of `padding` pixels. A picture that is still
/// smaller is padded on both sides.
/// Source: torchvision's RandomCrop with pad_if_needed.
struct RandomCrop {
  ImageSize size{32, 32};    ///< size of the result
  std::int64_t padding = 0;  ///< width of the border that is added first, in pixels
  Color fill{};              ///< colour of the border

  /// Returns the region in pixels of the picture without its border; it may extend outside.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Cuts the region; pixels outside the picture get the border's colour.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
