// SPDX-License-Identifier: Apache-2.0
// Folders of images.
#include "lockstep/data/sources/image_files.h"

#include <fmt/format.h>

#include "data/sources/files/files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/image_folder.h"

namespace lockstep {
namespace fs = std::filesystem;

const std::vector<std::string>& other_image_extensions() {
  static const std::vector<std::string> kOthers = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".heic"};
  return kOthers;
}

ImageFiles::ImageFiles(const fs::path& folder, const ImageFilesOptions& options) {
  if (!options.recursive) {
    files_ = list_files(folder, options.extensions).paths;
    return;
  }
  data::require_folder(folder);
  data::OtherImages others;
  files_ = data::files_below(folder, options.extensions, &others);
  data::note_other_images(folder.string(), others);
  if (files_.empty()) {
    throw DataError(fmt::format("folder {} and its subfolders contain no {} file", folder.string(),
                                text::join(options.extensions, " or ")));
  }
}

ImageFiles ImageFiles::of(std::vector<fs::path> files) {
  ImageFiles images;
  images.files_ = std::move(files);
  return images;
}

AnnotatedImage ImageFiles::get(std::int64_t index) const {
  return data::picture_of(files_[static_cast<std::size_t>(index)], index);
}

ClassFolders::ClassFolders(const fs::path& root, const ClassFoldersOptions& options) {
  data::require_folder(root);
  classes_ = data::folders_in(root);
  if (classes_.empty()) {
    throw DataError(fmt::format("{} contains no folder", root.string()), "create one folder of images per class");
  }
  std::vector<std::string> empty;
  data::OtherImages others;
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const std::vector<fs::path> files = data::files_below(root / classes_[label], options.extensions, &others);
    if (files.empty()) empty.push_back(classes_[label]);
    files_.insert(files_.end(), files.begin(), files.end());
    labels_.insert(labels_.end(), files.size(), static_cast<std::int64_t>(label));
  }
  data::note_other_images(root.string(), others);
  if (files_.empty() || (!empty.empty() && !options.allow_empty)) {
    throw DataError(
        fmt::format("no {} file in {} of the {} class folders of {}: {}", text::join(options.extensions, " or "),
                    empty.size(), classes_.size(), root.string(), text::join(empty)),
        "remove these folders, or set allow_empty");
  }
  data::note_numbered_classes(root.string(), classes_);
}

AnnotatedImage ClassFolders::get(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  AnnotatedImage picture = data::picture_of(files_[at], index);
  picture.label = labels_[at];
  return picture;
}

}  // namespace lockstep
