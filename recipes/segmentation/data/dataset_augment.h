// SPDX-License-Identifier: Apache-2.0
// The random augmentation of a training sample, in the cheapest order.
#pragma once

#include "segmentation/data/dataset.h"

namespace lockstep::segmentation {

/// A step of Compose: the image and its maps become crop x crop pixels. The visible part is cropped first, with a
/// border for the rotation, and only that part is rotated and scaled: a side of round(crop / factor) pixels of the
/// image becomes `crop`. A smaller image is placed at a random position inside the square.
class Augmenter {
 public:
  /// Throws: UsageError if an option is out of range.
  explicit Augmenter(const AugmentOptions& options);
  /// Thread-safe: yes. Throws: DataError naming an image that cannot be decoded.
  void operator()(AnnotatedImage& image, SampleRandom& random) const;

 private:
  AugmentOptions options_;
};

}  // namespace lockstep::segmentation
