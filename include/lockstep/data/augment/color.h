// SPDX-License-Identifier: Apache-2.0
// Augmentations that change pixels, but not annotations.
#pragma once

#include <optional>

#include "lockstep/data/augment/crop.h"
#include "lockstep/data/dataset.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// Converts to gray by ITU-R 601 luma, bit for bit as Pillow does. An encoded image is decoded as gray directly.
struct Gray {
  std::int64_t channels = 1;  ///< 1, or 3 equal channels

  /// Throws: UsageError if channels is neither 1 nor 3; DataError naming the file that cannot be decoded.
  void operator()(AnnotatedImage& image) const;
};

/// Multiplies every value by `factor`. This function and the next three apply the changes of ColorJitter, bit for bit
/// as Pillow does. Gray images have neither saturation nor hue. Units: a factor of 1 changes nothing; the hue shift is
/// a fraction of the colour wheel, -0.5 .. 0.5.
void adjust_brightness(Image& image, double factor);
/// Multiplies every value's difference from the image's mean gray by `factor`.
void adjust_contrast(Image& image, double factor);
/// Multiplies every value's difference from the gray of its pixel by `factor`.
void adjust_saturation(Image& image, double factor);
/// Shifts the hue by `turn`, a fraction of the colour wheel.
void adjust_hue(Image& image, double turn);

/// Changes brightness, contrast, saturation and hue at random, in random order. Source: torchvision's ColorJitter.
struct ColorJitter {
  double brightness = 0.0;  ///< the factor is drawn from 1 - brightness (at least 0) .. 1 + brightness; 0: unchanged
  double contrast = 0.0;    ///< the contrast factor is drawn in the same way
  double saturation = 0.0;  ///< the saturation factor is drawn in the same way
  double hue = 0.0;         ///< the hue shift is drawn from -hue .. hue
  double p = 1.0;           ///< probability that the image is changed

  /// The numbers that parameters() draws.
  struct Parameters {
    std::array<int, 4> order{0, 1, 2, 3};         ///< 0 brightness, 1 contrast, 2 saturation, 3 hue
    std::array<std::optional<double>, 4> values;  ///< factor of each change, indexed as above; none: no change
  };
  /// Draws the order and the factors.
  [[nodiscard]] Parameters parameters(SampleRandom& random) const;
  /// Applies the changes that parameters() drew.
  static void apply(AnnotatedImage& image, const Parameters& parameters);
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Applies SSD's distortions: brightness, contrast (first or last), saturation, hue and a permutation of the channels,
/// each with probability `p`. Source: torchvision's RandomPhotometricDistort.
struct PhotometricDistort {
  double min_brightness = 0.875;  ///< smallest brightness factor
  double max_brightness = 1.125;  ///< largest brightness factor
  double min_contrast = 0.5;      ///< smallest factor of contrast and saturation
  double max_contrast = 1.5;      ///< largest factor of contrast and saturation
  double hue = 0.05;              ///< largest hue shift in either direction, as a fraction of the colour wheel
  double p = 0.5;                 ///< probability of each distortion

  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Blurs with a Gaussian of `kernel` x `kernel` pixels, with probability `p`.
/// Source: torchvision's GaussianBlur; a value may differ from it by one.
struct GaussianBlur {
  std::int64_t kernel = 5;  ///< side of the kernel, in pixels; odd
  double min_sigma = 0.1;   ///< smallest standard deviation, in pixels
  double max_sigma = 2.0;   ///< largest standard deviation, in pixels
  double p = 1.0;           ///< probability that the image is blurred

  /// Throws: UsageError if the kernel is not odd and positive.
  void apply(AnnotatedImage& image, double sigma) const;
  void operator()(AnnotatedImage& image, SampleRandom& random) const;
};

/// Sets a rectangle of a sample to `value`, with probability `p`. Use it after ToTensor.
/// Source: torchvision's RandomErasing.
struct RandomErasing {
  double p = 0.5;           ///< probability that a sample is changed
  double min_scale = 0.02;  ///< smallest fraction of the area
  double max_scale = 0.33;  ///< largest fraction of the area
  double min_ratio = 0.3;   ///< smallest ratio of height to width
  double max_ratio = 3.3;   ///< largest ratio of height to width
  float value = 0.0F;       ///< value of the rectangle's elements

  /// Draws the rectangle; none if ten attempts found no place for it.
  [[nodiscard]] std::optional<Region> parameters(ImageSize picture, SampleRandom& random) const;
  /// Memory that another tensor uses, such as a data set's, is copied first, as by Normalize.
  /// Shapes: float32, C x H x W. Throws: UsageError for any other dtype or shape.
  void apply(Sample& sample, const Region& region) const;
  [[nodiscard]] Sample operator()(Sample sample, SampleRandom& random) const;
};

}  // namespace lockstep

#pragma GCC visibility pop
