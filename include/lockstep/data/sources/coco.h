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
  std::filesystem::path images = {};  ///< the pictures' folder; empty: the JSON file's folder
  bool masks = false;                 ///< draws every object's mask, as pycocotools does
  bool remap = true;                  ///< labels 0 .. n - 1 in the order of the category ids; false: the ids themselves
  bool strict = true;          ///< false: missing pictures and bad annotations are left out; their number is logged
  bool allow_outside = false;  ///< pictures may be outside `images` (name_inside())
};

/// Yields the pictures in the file's order, each with its annotations in the file's order. Boxes [x, y, w, h] become
/// corners; iscrowd becomes Object::crowd; a keypoint is visible if it is labelled (v > 0).
class CocoImages final : public ImageSource {
 public:
  /// Throws: DataError naming the file and the annotation: unknown image or category ids, boxes of negative size,
  /// missing pictures; IoError.
  explicit CocoImages(const std::filesystem::path& annotations, const CocoOptions& options = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;
  /// Returns the objects of picture `index`, without reading the picture. Lifetime: as long as this object.
  [[nodiscard]] const std::vector<Object>& objects(std::int64_t index) const;
  /// Returns the picture's size according to the JSON file; 0 x 0 if the file has none.
  [[nodiscard]] ImageSize stated_size(std::int64_t index) const;
  [[nodiscard]] const std::vector<std::string>& class_names() const override;
  /// Returns the COCO category id of each label; empty if the labels are the ids themselves.
  [[nodiscard]] const std::vector<std::int64_t>& category_ids() const noexcept;
  /// Returns the number of pictures and annotations that `strict = false` left out.
  [[nodiscard]] std::int64_t left_out() const noexcept { return left_out_; }

 private:
  std::filesystem::path path_;
  CocoOptions options_;
  std::shared_ptr<const data::Coco> coco_;
  std::int64_t left_out_ = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
