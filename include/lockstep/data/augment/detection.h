// SPDX-License-Identifier: Apache-2.0
// Augmentations that respect the objects in an image.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lockstep/data/augment/crop.h"

#pragma GCC visibility push(default)

namespace lockstep {

struct SampleContext;  // dataset.h

/// Places the image anywhere on a canvas of up to `max_side` times its sides, with probability `p`.
/// Source: SSD; torchvision's RandomZoomOut.
struct ZoomOut {
  double min_side = 1.0;  ///< smallest scale factor of the sides
  double max_side = 4.0;  ///< largest scale factor of the sides
  Color fill{};           ///< colour around the image
  double p = 0.5;         ///< probability that the image is placed on a canvas

  /// Returns the canvas, in pixels of the image.
  [[nodiscard]] Region parameters(ImageSize picture, SampleRandom& random) const;
  /// Places the image on the canvas, and moves the objects.
  void apply(AnnotatedImage& image, const Region& canvas) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Draws a minimum overlap (IoU) from 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1 (no crop), and crops so that at least one
/// object's box has this overlap with the crop. Drops the objects whose centre is outside. Source: SSD; torchvision's
/// RandomIoUCrop.
struct IoUCrop {
  double min_scale = 0.3;  ///< smallest fraction of each side
  double max_scale = 1.0;  ///< largest fraction of each side
  double min_ratio = 0.5;  ///< smallest ratio of width to height
  double max_ratio = 2.0;  ///< largest ratio of width to height
  int tries = 40;          ///< crop attempts for each drawn overlap
  double p = 1.0;          ///< probability that a crop is attempted

  /// Draws the crop; none if the image is not cropped.
  [[nodiscard]] std::optional<Region> parameters(const AnnotatedImage& image, SampleRandom& random) const;
  /// Crops the region, and drops the objects whose centre is outside.
  static void apply(AnnotatedImage& image, const Region& region);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Drops objects whose box is narrower or shorter than `min_size` pixels. Use it after crops and rotations.
/// Source: torchvision's SanitizeBoundingBoxes.
struct SanitizeBoxes {
  double min_size = 1.0;  ///< smallest width and height, in pixels

  void operator()(AnnotatedImage& image) const;
};

/// Combines the sample's image with three others from the source, with probability `p`. Each is resized to a shorter
/// side of `shorter` and fills one quarter; the whole is then rotated, shifted and scaled. Maps and masks are included;
/// class and captions are those of the sample's image. If bad samples are skipped (SampleContext::left_out), another
/// image replaces an unreadable one. Thread-safe: yes for calls, if the source is thread-safe.
/// Throws: anything the source throws. Source: YOLOv4, with the parameters of D-FINE and DEIM.
struct Mosaic {
  std::shared_ptr<const ImageSource> source;  ///< the source of the other images
  std::int64_t shorter = 320;                 ///< shorter side of each image, in pixels
  double degrees = 10.0;                      ///< the angle is drawn from -degrees .. degrees
  double translate = 0.1;                     ///< largest shift, as a fraction of the sides
  double min_scale = 0.5;                     ///< smallest scale factor
  double max_scale = 1.5;                     ///< largest scale factor
  Color fill{};                               ///< colour outside the images
  double p = 1.0;                             ///< probability that a mosaic is created

  void operator()(AnnotatedImage& image, SampleContext& context) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Blends the image with another image from the source, resized to the same size, with probability `p`. The objects of
/// both are kept. Maps and masks are not supported. An unreadable image is replaced as in Mosaic.
/// Throws: UsageError if there is a map or a mask; anything the source throws. Source: DEIM's MixUp for detection.
struct BlendPictures {
  std::shared_ptr<const ImageSource> source;  ///< the source of the other image
  double min_share = 0.45;                    ///< smallest share of the first image
  double max_share = 0.55;                    ///< largest share of the first image
  double p = 0.5;                             ///< probability that images are blended

  void operator()(AnnotatedImage& image, SampleContext& context) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
