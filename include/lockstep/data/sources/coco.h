// SPDX-License-Identifier: Apache-2.0
// COCO's JSON: objects with boxes, masks and keypoints, or captions. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {
namespace data {
struct Coco;
}  // namespace data

/// The options of CocoImages.
struct CocoOptions {
  std::filesystem::path images = {};  ///< the image folder; empty: the JSON file's folder
  bool masks = false;                 ///< draws every object's mask, as pycocotools does
  bool remap = true;                  ///< labels 0 .. n - 1 in the order of the category ids; false: the ids themselves
  bool strict = true;                 ///< false: missing images and bad annotations are skipped; their number is logged
  bool allow_outside = false;         ///< image files may be outside `images` (name_inside())
};

/// Yields the images in the file's order, each with its annotations in the file's order. Boxes [x, y, w, h] become
/// corners; iscrowd becomes Object::crowd; a keypoint is visible if it is labelled (v > 0).
class CocoImages final : public ImageSource {
 public:
  /// Throws: DataError naming the file and the annotation: unknown image or category ids, boxes of negative size,
  /// missing images; IoError.
  explicit CocoImages(const std::filesystem::path& annotations, const CocoOptions& options = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;
  /// Returns the objects of image `index`, without reading the image. Lifetime: as long as this object.
  [[nodiscard]] const std::vector<Object>& objects(std::int64_t index) const;
  /// Returns the image's size according to the JSON file; 0 x 0 if the file has none.
  [[nodiscard]] ImageSize stated_size(std::int64_t index) const;
  [[nodiscard]] const std::vector<std::string>& class_names() const override;
  /// Returns the COCO category id of each label; empty if the labels are the ids themselves.
  [[nodiscard]] const std::vector<std::int64_t>& category_ids() const noexcept;
  /// Returns the number of images and annotations that `strict = false` skipped.
  [[nodiscard]] std::int64_t left_out() const noexcept { return left_out_; }

 private:
  std::filesystem::path path_;
  CocoOptions options_;
  std::shared_ptr<const data::Coco> coco_;
  std::int64_t left_out_ = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
