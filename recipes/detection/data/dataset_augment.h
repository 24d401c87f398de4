// SPDX-License-Identifier: Apache-2.0
// Which augmentation runs in which epoch.
#pragma once

#include <memory>

#include "detection/data/dataset.h"

namespace lockstep::detection {

/// What a training sample carries to its batch: its picture in its own size.
using Unsized = std::shared_ptr<AnnotatedImage>;

/// The part of a training sample's way that chance decides; the loader's collate function does the rest.
class Augmenter {
 public:
  /// `source`: where Mosaic and MixUp find other pictures. Throws: UsageError where an option is out of range.
  Augmenter(const AugmentOptions& options, std::shared_ptr<const ImageSource> source);
  /// Decodes where nothing else did. Thread-safe: yes. Throws: DataError naming the picture.
  void operator()(AnnotatedImage& image, SampleContext& context) const;

 private:
  void run_strong(AnnotatedImage& image, SampleContext& context, bool with_mixes) const;

  AugmentOptions options_;
  std::shared_ptr<const ImageSource> source_;
};

}  // namespace lockstep::detection
