// SPDX-License-Identifier: Apache-2.0
// Augments a training sample, by epoch.
#pragma once

#include <memory>

#include "detection/data/dataset.h"

namespace lockstep::detection {

/// The Sample::extra of a training sample before collate: its image, in its original size.
using Unsized = std::shared_ptr<AnnotatedImage>;

/// The random part of preparing a training sample; the loader's collate function does the rest.
class Augmenter {
 public:
  /// `source`: the other images, for Mosaic and MixUp. Throws: UsageError if an option is out of range.
  Augmenter(const AugmentOptions& options, std::shared_ptr<const ImageSource> source);
  /// Decodes the image if no operation has done so. Thread-safe: yes. Throws: DataError naming the image.
  void operator()(AnnotatedImage& image, SampleContext& context) const;

 private:
  void run_strong(AnnotatedImage& image, SampleContext& context, bool with_mixes) const;

  AugmentOptions options_;
  std::shared_ptr<const ImageSource> source_;
};

}  // namespace lockstep::detection
