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

/// Draws a least overlap (IoU) from 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1 (no crop), and crops so that at least one object's
/// box has this overlap with the crop. Drops the objects whose centre is outside. Source: SSD; torchvision's
/// RandomIoUCrop.
struct IoUCrop {
  double min_scale = 0.3;  ///< least share of each side
  double max_scale = 1.0;  ///< largest share of each side
  double min_ratio = 0.5;  ///< least ratio of width to height
  double max_ratio = 2.0;  ///< largest ratio of width to height
  int tries = 40;          ///< crops tried for each drawn overlap
  double p = 1.0;          ///< probability that a crop is tried

  /// Draws the crop; none if the picture stays whole.
  [[nodiscard]] std::optional<Region> parameters(const AnnotatedImage& image, SampleRandom& random) const;
  /// Cuts the region, and drops the objects whose centre is outside.
  static void apply(AnnotatedImage& image, const Region& region);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Drops objects whose box is narrower or lower than `min_size` pixels. Use it after crops and rotations.
/// Source: torchvision's SanitizeBoundingBoxes.
struct SanitizeBoxes {
  double min_size = 1.0;  ///< least width and height, in pixels

  void operator()(AnnotatedImage& image) const;
};

/// Combines the sample's picture with three others of the source, with probability `p`. Each is resized to a shorter
/// side of `shorter` and fills one quarter; the whole is then rotated, shifted and scaled. Maps and masks are included;
/// class and captions are those of the sample's picture. If bad samples are left out (SampleContext::left_out), another
/// picture replaces an unreadable one. Thread-safe: calls are, if the source is.
/// Throws: the errors of the source. Source: YOLOv4, with the parameters of D-FINE and DEIM.
struct Mosaic {
  std::shared_ptr<const ImageSource> source;  ///< the source of the other pictures
  std::int64_t shorter = 320;                 ///< shorter side of each picture, in pixels
  double degrees = 10.0;                      ///< the angle is drawn from -degrees .. degrees
  double translate = 0.1;                     ///< largest shift, as a share of the sides
  double min_scale = 0.5;                     ///< least factor of the size
  double max_scale = 1.5;                     ///< largest factor of the size
  Color fill{};                               ///< colour outside the pictures
  double p = 1.0;                             ///< probability that a mosaic is made

  void operator()(AnnotatedImage& image, SampleContext& context) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Blends the picture with another picture of the source, resized to the same size, with probability `p`. The objects
/// of both are kept. Maps and masks must be absent. An unreadable picture is replaced as in Mosaic.
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
