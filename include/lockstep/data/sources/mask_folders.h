// SPDX-License-Identifier: Apache-2.0
// A folder of images and a folder of PNG masks with the same names. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The meaning of the numbers in a mask.
enum class MaskMeaning {
  kClasses,     ///< a class for each pixel, as in VOC's SegmentationClass; 255 means no class
  kForeground,  ///< every number except 0 is class 1: reads instance maps as a two-class segmentation
  kInstances,   ///< like kForeground, and each number is also an object with box, area and mask
};

/// The options of MaskFolders.
struct MaskFoldersOptions {
  MaskMeaning meaning = MaskMeaning::kClasses;  ///< the meaning of the numbers in a mask
  std::filesystem::path list = {};              ///< a text file with one name per line; empty: every mask in the folder
  /// Names by class id; mask_class_names() reads them from a file.
  std::vector<std::string> class_names = {};
  bool allow_outside = false;  ///< lets names in `list` point outside the mask folder (name_inside())
};

/// Returns the class names of masks, by id, from `classes.txt` (one name per line) or `labelmap.txt` (CVAT's:
/// name:colour:parts:actions) in this folder or its parent; none if there is no such file.
[[nodiscard]] std::vector<std::string> mask_class_names(const std::filesystem::path& root);

/// Yields images (.jpg, .jpeg or .png) with a LabelMap each. Masks are gray or palette PNGs of up to 16 bits.
class MaskFolders final : public ImageSource {
 public:
  /// Throws: DataError if a folder is missing, there is no mask, or a mask has no image; IoError.
  MaskFolders(const std::filesystem::path& pictures, const std::filesystem::path& masks,
              MaskFoldersOptions options = {});

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(pictures_.size()); }
  /// Throws: DataError if the mask is damaged, its size differs from the image's, or it has a class above 255;
  ///         IoError.
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return options_.class_names; }

 private:
  std::vector<std::filesystem::path> pictures_;
  std::vector<std::filesystem::path> masks_;
  MaskFoldersOptions options_;
};

}  // namespace lockstep

#pragma GCC visibility pop
