// SPDX-License-Identifier: Apache-2.0
// The evaluation of a set: one confusion matrix over all ranks, and pages of the worst and best images.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"
#include "lockstep/train/tally.h"
#include "segmentation/metrics/confusion.h"
#include "segmentation/metrics/overlay.h"

namespace lockstep::segmentation {

/// Requires the output "classes", uint8 [B, H, W], and batches with std::vector<EvalPicture> in `extra`. Pixels outside
/// an image's own size are not counted.
/// Metrics: miou, pixel_accuracy, and iou_<class> for each class that is in a mask or was predicted.
class SegmentationTally final : public Tally {
 public:
  /// `class_names`: one per class, by label. `source`: the images, with the mask in maps[0]; if null, nothing is drawn.
  SegmentationTally(std::vector<std::string> class_names, std::shared_ptr<const ImageSource> source);

  void add(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] std::string bytes() const override;
  [[nodiscard]] std::vector<Metric> metrics(const std::vector<std::string>& parts) override;
  [[nodiscard]] std::string report() const override;
  /// Draws worst.png and best.png.
  [[nodiscard]] std::vector<std::filesystem::path> draw(const std::filesystem::path& folder) const override;

  [[nodiscard]] const Confusion& confusion() const noexcept { return confusion_; }

 private:
  std::vector<std::string> class_names_;
  std::shared_ptr<const ImageSource> source_;
  Confusion confusion_;  ///< counts of this rank; after metrics(), of all ranks
  Gallery gallery_;
};

}  // namespace lockstep::segmentation
