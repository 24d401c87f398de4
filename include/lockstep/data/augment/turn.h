// SPDX-License-Identifier: Apache-2.0
// Flips, rotations and affine maps. A rotated box becomes the axis-aligned box around its corners, clipped to the
// image.
#pragma once

#include "lockstep/data/augment/crop.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Swaps left and right, with probability `p`.
struct HorizontalFlip {
  double p = 0.5;  ///< probability that the image is flipped

  /// Swaps left and right: pixels, boxes, points, masks and maps.
  static void apply(AnnotatedImage& image);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Swaps top and bottom, with probability `p`.
struct VerticalFlip {
  double p = 0.5;  ///< probability that the image is flipped

  /// Swaps top and bottom: pixels, boxes, points, masks and maps.
  static void apply(AnnotatedImage& image);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// The parameters of a rotation about an image's centre, with shift, scale and shear.
struct AffineParameters {
  double degrees = 0.0;      ///< rotation, in degrees clockwise
  double translate_x = 0.0;  ///< horizontal shift, in pixels
  double translate_y = 0.0;  ///< vertical shift, in pixels
  double scale = 1.0;        ///< scale factor
  double shear_x = 0.0;      ///< horizontal shear, in degrees
  double shear_y = 0.0;      ///< vertical shear, in degrees
};

/// Rotates, shears, scales and shifts in one pass; the image keeps its size. Source: torchvision's RandomAffine.
struct Affine {
  double degrees = 0.0;      ///< the angle is drawn from -degrees .. degrees
  double translate_x = 0.0;  ///< largest shift, as a fraction of the width; whole pixels are drawn
  double translate_y = 0.0;  ///< largest shift, as a fraction of the height
  double min_scale = 1.0;    ///< smallest scale factor
  double max_scale = 1.0;    ///< largest scale factor
  double shear_x = 0.0;      ///< largest horizontal shear, in degrees
  double shear_y = 0.0;      ///< largest vertical shear, in degrees
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  Color fill{};                                            ///< colour outside the image
  double p = 1.0;                                          ///< probability that the image is changed

  /// Draws the parameters for an image of this size.
  [[nodiscard]] AffineParameters parameters(ImageSize picture, SampleRandom& random) const;
  /// Changes pixels, boxes, points, masks and maps.
  void apply(AnnotatedImage& image, const AffineParameters& parameters) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Rotates about the centre by -degrees .. degrees, with probability `p`; the image keeps its size.
struct Rotation {
  double degrees = 10.0;                                   ///< the angle is drawn from -degrees .. degrees
  Interpolation interpolation = Interpolation::kBilinear;  ///< the resampling method
  Color fill{};                                            ///< colour outside the image
  double p = 1.0;                                          ///< probability that the image is rotated

  /// Rotates by `degrees_left` counter-clockwise, as torchvision's rotate() does.
  void apply(AnnotatedImage& image, double degrees_left) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
