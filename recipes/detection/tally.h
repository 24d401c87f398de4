// SPDX-License-Identifier: Apache-2.0
// The evaluation of a set: COCO's metrics over all ranks, precision and recall, and the best and worst images.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "detection/data/pictures.h"
#include "detection/data/targets.h"
#include "detection/metrics/coco_eval.h"
#include "detection/metrics/coco_results.h"
#include "lockstep/train/tally.h"

namespace lockstep::detection {

/// Converts one image's target from open_test_set(), with boxes as centre and size in 0..1.
/// Units: the boxes of the result are pixels of the original image.
[[nodiscard]] ImageTruth truth_of(const Detections& target);

/// The most certain detections of each image of a batch, in pixels of the original images: as many as the network has
/// queries, but at least 100 if there are as many pairs of query and class.
[[nodiscard]] std::vector<std::vector<FoundObject>> found_objects(const Outputs& outputs, const Targets& targets);

/// The part of a box that is inside the image: a model's boxes may extend beyond its edges. Units: pixels.
[[nodiscard]] CocoBox cut_at_edges(const CocoBox& box, ImageSize size);

class DetectionTally final : public Tally {
 public:
  /// `class_names`: names by label. `source`: the images of the samples, by index; null if no images are drawn.
  /// `category_ids`: as in DetectionSet.
  DetectionTally(std::vector<std::string> class_names, std::shared_ptr<const ImageSource> source,
                 std::vector<std::int64_t> category_ids = {})
      : class_names_(std::move(class_names)), source_(std::move(source)), category_ids_(std::move(category_ids)) {}

  void keep_all() override { keeps_all_ = true; }
  void add(const Outputs& outputs, const Batch& batch) override;
  [[nodiscard]] std::string bytes() const override;
  [[nodiscard]] std::vector<Metric> metrics(const std::vector<std::string>& parts) override;
  [[nodiscard]] std::string report() const override;
  /// The files detections.json (COCO's results) and metrics.json (COCO's metrics); empty without keep_all().
  [[nodiscard]] std::map<std::string, std::string> results(std::int64_t epoch) const override;
  /// Draws worst.png and best.png.
  [[nodiscard]] std::vector<std::filesystem::path> draw(const std::filesystem::path& folder) const override;

 private:
  std::vector<std::string> class_names_;
  std::shared_ptr<const ImageSource> source_;
  std::vector<std::int64_t> category_ids_;
  bool keeps_all_ = false;
  std::vector<ImageDetections> detections_;  ///< this rank's, if keep_all(); after metrics(), those of all ranks
  std::vector<ImageResult> results_;         ///< results of this rank
  Gallery gallery_;                          ///< this rank's images; after metrics(), those of all ranks
  CocoNumbers numbers_;                      ///< metrics of all ranks, after metrics()
};

}  // namespace lockstep::detection
