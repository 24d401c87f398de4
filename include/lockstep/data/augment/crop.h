// SPDX-License-Identifier: Apache-2.0
// Parts of pictures, and pictures with a border. Boxes are clipped to what is left and keep their place in the list
// even where nothing of them is: SanitizeBoxes drops those.
#pragma once

#include <array>

#include "lockstep/data/resample.h"
#include "lockstep/data/sample_random.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// What stands where nothing of the picture is, by channel; gray pictures take the first.
using Color = std::array<std::uint8_t, 3>;

/// A part of random area and shape, in the wanted size. Of a JPEG only the part is decoded.
/// Source: torchvision's RandomResizedCrop.
struct RandomResizedCrop {
  ImageSize size{224, 224};
  double min_scale = 0.08;  ///< of the picture's area
  double max_scale = 1.0;
  double min_ratio = 3.0 / 4.0;  ///< width to height
  double max_ratio = 4.0 / 3.0;
  Interpolation interpolation = Interpolation::kBilinear;
  /// A part of a JPEG of at least twice the size is decoded at a half, quarter or eighth: faster, other bits than
  /// Pillow's.
  bool shrink_while_decoding = true;

  [[nodiscard]] Region parameters(ImageSize of, SampleRandom& random) const;
  /// Throws: DataError naming the file that cannot be decoded.
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// The middle; a smaller picture gets a border first.
/// Source: torchvision's CenterCrop.
struct CenterCrop {
  ImageSize size{224, 224};
  Color fill{};

  /// May reach outside.
  [[nodiscard]] Region region_of(ImageSize of) const;
  void operator()(AnnotatedImage& image) const;
};

/// A border of so many pixels.
struct Pad {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
  Color fill{};

  void operator()(AnnotatedImage& image) const;
};

/// A part of the wanted size anywhere in the picture with a border of `padding` pixels; a picture that is still smaller
/// gets what is missing on both sides.
/// Source: torchvision's RandomCrop with pad_if_needed.
struct RandomCrop {
  ImageSize size{32, 32};
  std::int64_t padding = 0;
  Color fill{};

  /// In pixels of the picture without its border: may reach outside.
  [[nodiscard]] Region parameters(ImageSize of, SampleRandom& random) const;
  void apply(AnnotatedImage& image, const Region& region) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
