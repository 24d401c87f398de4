// SPDX-License-Identifier: Apache-2.0
// The detections in each image of a set, and their JSON for COCO's tools. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "detection/metrics/coco_eval.h"

namespace lockstep::detection {

/// The detections in one image.
struct ImageDetections {
  std::int64_t index = 0;  ///< index in the source
  std::int64_t id = 0;     ///< COCO's image id, or else the image's index
  std::vector<FoundObject> found;
};

/// Encodes detections for a message between ranks.
[[nodiscard]] std::string detection_bytes(const std::vector<ImageDetections>& images);
/// Throws: InternalError if the bytes did not come from detection_bytes().
[[nodiscard]] std::vector<ImageDetections> detections_from_bytes(std::string_view bytes);

/// Sorts by index and keeps each image once. Some images occur twice, because every rank evaluates the same number of
/// images.
void sort_and_unite(std::vector<ImageDetections>& images);

/// Writes the results file for pycocotools' loadRes(): image_id, category_id, bbox [x, y, width, height] and score.
/// `category_ids`: the id of each label; if empty, the label itself. `file_names`: names by index; if not empty,
/// file_name and category are added, for a set whose images have no ids.
[[nodiscard]] std::string coco_results(const std::vector<ImageDetections>& images,
                                       const std::vector<std::int64_t>& category_ids,
                                       const std::vector<std::string>& file_names = {},
                                       const std::vector<std::string>& class_names = {});

/// COCO's metrics as one JSON object: the twelve by name and, in pycocotools' order, as "stats"; precision, recall and
/// F1; and the metrics of each class.
[[nodiscard]] std::string coco_json(const CocoNumbers& numbers, const std::vector<std::string>& class_names);

}  // namespace lockstep::detection
