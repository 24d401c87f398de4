// SPDX-License-Identifier: Apache-2.0
// Pascal VOC: a folder of images, a folder of XML files, and optional lists of names. No torch header.
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
struct VocSet;
}  // namespace data

/// The options of VocImages.
struct VocOptions {
  /// `ImageSets/Main/<split>.txt`; a file with a flag after each name is valid too. Without ImageSets only "trainval"
  /// is valid, and means all XML files.
  std::string split = "trainval";
  bool difficult_is_crowd = false;            ///< objects marked as difficult become crowds, which evaluation ignores
  bool drop_empty_boxes = false;              ///< drops boxes without area, and counts them
  bool strict = true;                         ///< false: names without a good image or XML are skipped and counted
  bool allow_outside = false;                 ///< lets names point outside `root` (name_inside())
  std::vector<std::string> class_names = {};  ///< by label; empty: all classes in Annotations, sorted
};

/// Yields `JPEGImages/<name>.jpg` with the objects of `Annotations/<name>.xml`. The folders may also be called images
/// and annotations, in any case, or `root` itself may hold both kinds of file. The folder names in the XML come from
/// another machine and are ignored. VOC counts pixels from 1 and includes the last one: (xmin, ymin, xmax, ymax)
/// becomes (xmin-1, ymin-1, xmax, ymax), clipped to the image. A box with xmin = xmax or ymin = ymax has no area here
/// either.
class VocImages final : public ImageSource {
 public:
  /// Throws: DataError naming the file and the byte or the object; IoError.
  explicit VocImages(const std::filesystem::path& root, const VocOptions& options = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;
  /// Returns the objects of image `index`, without reading the image. Lifetime: as long as this object.
  [[nodiscard]] const std::vector<Object>& objects(std::int64_t index) const;
  /// Returns the image's size in the XML; 0 x 0 if the XML has none.
  [[nodiscard]] ImageSize stated_size(std::int64_t index) const;
  [[nodiscard]] const std::vector<std::string>& class_names() const override;
  [[nodiscard]] std::int64_t empty_boxes() const noexcept;  ///< boxes without area in this split
  [[nodiscard]] std::int64_t left_out() const noexcept;     ///< number of names that `strict = false` skipped

 private:
  std::shared_ptr<const data::VocSet> set_;
};

}  // namespace lockstep

#pragma GCC visibility pop
