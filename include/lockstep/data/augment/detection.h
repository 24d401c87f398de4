// SPDX-License-Identifier: Apache-2.0
// Augmentations that respect the objects in a picture.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lockstep/data/augment/crop.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct SampleContext;  // dataset.h

/// Places the picture anywhere on a canvas of up to `max_side` times its sides, with probability `p`.
/// Source: SSD; torchvision's RandomZoomOut.
struct ZoomOut {
  double min_side = 1.0;  ///< least factor of the sides
  double max_side = 4.0;  ///< largest factor of the sides
  Color fill{};           ///< colour around the picture
  double p = 0.5;         ///< probability that the picture is placed on a canvas

  /// Returns the canvas, in pixels of the picture.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Places the picture on the canvas, and moves the objects.
  void apply(AnnotatedImage& image, const Region& canvas) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Crops so that at least one object overlaps by a share drawn from 0, 0.1, 0.3, 0.5, 0.7, 0.9 or 1 (no crop). Objects
/// whose centre is outside are dropped. Source: SSD; torchvision's RandomIoUCrop.
struct IoUCrop {
  double min_scale = 0.3;  ///< share of each side
  double max_scale = 1.0;  ///< largest share of each side
  double min_ratio = 0.5;  ///< width to height
  double max_ratio = 2.0;  ///< largest ratio
  int tries = 40;          ///< tries for each share that is drawn
  double p = 1.0;          ///< probability that a crop is tried

  /// Returns none if there is no crop.
  [[nodiscard]] std::optional<Region> parameters(const AnnotatedImage& image, SampleRandom& random) const;
  /// Cuts the region, and drops the objects whose centre is outside.
  static void apply(AnnotatedImage& image, const Region& region);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Drops objects whose box is narrower or lower than `min_size` pixels. Use it after crops and rotations.
/// Source: torchvision's SanitizeBoundingBoxes.
struct SanitizeBoxes {
  double min_size = 1.0;  ///< pixels

  void operator()(AnnotatedImage& image) const;
};

/// Combines four pictures: the sample's own and three others of the source, each with its shorter side resized to
/// `shorter`, in four quarters, then rotated, shifted and scaled together. Maps and masks are included; class and
/// captions are those of the first. It is applied with probability `p`. If bad samples are left out
/// (SampleContext::left_out), another picture is drawn in place of one that cannot be read. Thread-safe: as the source.
/// Throws: the errors of the source. Source: YOLOv4; D-FINE's and DEIM's parameters.
struct Mosaic {
  std::shared_ptr<const ImageSource> source;  ///< the source of the other pictures
  std::int64_t shorter = 320;                 ///< pixels
  double degrees = 10.0;                      ///< the angle is drawn from -degrees .. degrees
  double translate = 0.1;                     ///< largest shift, as a share of the sides
  double min_scale = 0.5;                     ///< least factor of the size
  double max_scale = 1.5;                     ///< largest factor of the size
  Color fill{};                               ///< colour outside the pictures
  double p = 1.0;                             ///< probability that a mosaic is made

  void operator()(AnnotatedImage& image, SampleContext& context) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Blends the picture with another one of the source, which is resized to its size; the objects of both are kept. It is
/// applied with probability `p`. Maps and masks must be absent. A picture that cannot be read is replaced as in Mosaic.
/// Throws: UsageError if there is a map or a mask; the errors of the source. Source: DEIM's MixUp for detection.
struct BlendPictures {
  std::shared_ptr<const ImageSource> source;  ///< the source of the other picture
  double min_share = 0.45;                    ///< least share of the first picture
  double max_share = 0.55;                    ///< largest share of the first picture
  double p = 0.5;                             ///< probability that pictures are blended

  void operator()(AnnotatedImage& image, SampleContext& context) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
