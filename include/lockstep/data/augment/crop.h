// SPDX-License-Identifier: Apache-2.0
// Crops, and borders around pictures. Boxes are clipped to the remaining part of the picture. A box that becomes empty
// stays in the list; SanitizeBoxes drops it.
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
  double min_scale = 0.08;                                 ///< least share of the picture's area
  double max_scale = 1.0;                                  ///< largest share of the area
  double min_ratio = 3.0 / 4.0;                            ///< least ratio of width to height
  double max_ratio = 4.0 / 3.0;                            ///< largest ratio of width to height
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  /// Decodes at a half, quarter or eighth if the part of a JPEG is large enough: faster, but not bit for bit as Pillow.
  bool shrink_while_decoding = true;

  /// Draws the part to cut from a picture of this size.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Throws: DataError naming the file that cannot be decoded.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Cuts the middle. A picture that is smaller than the result gets a border first. Source: torchvision's CenterCrop.
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

/// Adds a border of `padding` pixels, and cuts a part of the wanted size at a random place. A picture that is still too
/// small gets a wider border on both sides. Source: torchvision's RandomCrop with pad_if_needed.
struct RandomCrop {
  ImageSize size{32, 32};    ///< size of the result
  std::int64_t padding = 0;  ///< width of the border that is added first, in pixels
  Color fill{};              ///< colour of the border

  /// Draws the region, in pixels of the picture without its border; it may extend outside.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Cuts the region; pixels outside the picture get the border's colour.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
