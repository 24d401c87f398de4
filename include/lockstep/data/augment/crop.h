// SPDX-License-Identifier: Apache-2.0
// Parts of pictures, and pictures with a border. Boxes are clipped to what is left and keep their place in the list
// even where they are empty; SanitizeBoxes drops those.
#pragma once

#include <array>

#include "lockstep/data/resample.h"
#include "lockstep/data/sample_random.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The colour outside of the picture, by channel; gray pictures take the first.
using Color = std::array<std::uint8_t, 3>;

/// Cuts a part of random area and shape, and resizes it. Only that part of a JPEG is decoded.
/// Source: torchvision's RandomResizedCrop.
struct RandomResizedCrop {
  ImageSize size{224, 224};
  double min_scale = 0.08;  ///< share of the picture's area
  double max_scale = 1.0;
  double min_ratio = 3.0 / 4.0;  ///< width to height
  double max_ratio = 4.0 / 3.0;
  Interpolation interpolation = Interpolation::kBilinear;
  /// Decodes a part of a JPEG of at least twice the size at a half, quarter or eighth. It is faster, with other bits
  /// than Pillow's.
  bool shrink_while_decoding = true;

  [[nodiscard]] Region parameters(ImageSize of, SampleRandom& random) const;
  /// Throws: DataError naming the file that cannot be decoded.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Cuts the middle; a smaller picture gets a border first.
/// Source: torchvision's CenterCrop.
struct CenterCrop {
  ImageSize size{224, 224};
  Color fill{};

  /// Returns the region, which may reach outside of the picture.
  [[nodiscard]] Region region_of(ImageSize of) const;
  void operator()(AnnotatedImage& image) const;
};

/// Adds a border, in pixels.
struct Pad {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
  Color fill{};

  void operator()(AnnotatedImage& image) const;
};

/// Cuts a part of the wanted size anywhere in the picture with a border of `padding` pixels. A picture that is still
/// smaller is padded on both sides.
/// Source: torchvision's RandomCrop with pad_if_needed.
struct RandomCrop {
  ImageSize size{32, 32};
  std::int64_t padding = 0;
  Color fill{};

  /// Returns the region in pixels of the picture without its border; it may reach outside.
  [[nodiscard]] Region parameters(ImageSize of, SampleRandom& random) const;
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
