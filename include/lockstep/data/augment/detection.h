// SPDX-License-Identifier: Apache-2.0
// Augmentations that respect the objects in a picture.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lockstep/data/augment/crop.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Puts the picture anywhere on a canvas of up to `max_side` times its sides, with probability `p`.
/// Source: SSD; torchvision's RandomZoomOut.
struct ZoomOut {
  double min_side = 1.0;
  double max_side = 4.0;
  Color fill{};
  double p = 0.5;

  /// Returns the canvas, in pixels of the picture.
  [[nodiscard]] Region parameters(ImageSize of, SampleRandom& random) const;
  void apply(AnnotatedImage& image, const Region& canvas) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Crops so that at least one object overlaps by a share drawn from 0, 0.1, 0.3, 0.5, 0.7, 0.9 or 1 (no crop). Objects
/// whose centre is outside are dropped. Source: SSD; torchvision's RandomIoUCrop.
struct IoUCrop {
  double min_scale = 0.3;  ///< share of each side
  double max_scale = 1.0;
  double min_ratio = 0.5;  ///< width to height
  double max_ratio = 2.0;
  int tries = 40;  ///< tries for each share that is drawn
  double p = 1.0;

  /// Returns none where there is no crop.
  [[nodiscard]] std::optional<Region> parameters(const AnnotatedImage& image, SampleRandom& random) const;
  static void apply(AnnotatedImage& image, const Region& region);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Drops objects whose box is narrower or lower than `min_size` pixels. Use it after crops and rotations.
/// Source: torchvision's SanitizeBoundingBoxes.
struct SanitizeBoxes {
  double min_size = 1.0;

  void operator()(AnnotatedImage& image) const;
};

/// Puts four pictures into one: the sample's own and three others of the source, each with its shorter side resized to
/// `shorter`, in four quarters, then rotated, shifted and scaled together. Maps and masks are included; class and
/// captions are those of the first. It is applied with probability `p`.
/// Thread-safe: as the source. Throws: what the source throws. Source: YOLOv4; D-FINE's and DEIM's parameters.
struct Mosaic {
  std::shared_ptr<const ImageSource> source;
  std::int64_t shorter = 320;
  double degrees = 10.0;
  double translate = 0.1;
  double min_scale = 0.5;
  double max_scale = 1.5;
  Color fill{};
  double p = 1.0;

  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Blends the picture with another one of the source, which is resized to its size; the objects of both are kept. It is
/// applied with probability `p`. Maps and masks must be absent.
/// Throws: UsageError where there is a map or a mask; what the source throws. Source: DEIM's MixUp for detection.
struct BlendPictures {
  std::shared_ptr<const ImageSource> source;
  double min_share = 0.45;  ///< share of the first picture
  double max_share = 0.55;
  double p = 0.5;

  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
