// SPDX-License-Identifier: Apache-2.0
// What chance does to a training sample, in the order in which it costs least.
#pragma once

#include "segmentation/data/dataset.h"

namespace lockstep::segmentation {

/// A step of Compose: the picture and its maps become crop x crop pixels.
/// The part that will be seen is cut out first, with a border for the turn, and only that is turned and scaled: a side
/// of round(crop / factor) pixels of the picture becomes `crop`. A picture that is smaller is placed at random in it.
class Augmenter {
 public:
  /// Throws: UsageError where an option is out of range.
  explicit Augmenter(const AugmentOptions& options);
  /// Thread-safe: yes. Throws: DataError naming a picture that cannot be decoded.
  void operator()(AnnotatedImage& image, SampleRandom& random) const;

 private:
  AugmentOptions options_;
};

}  // namespace lockstep::segmentation
