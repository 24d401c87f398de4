// SPDX-License-Identifier: Apache-2.0
// Sources of image files: one folder, a folder for each class, or a list of files. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {
namespace data {
struct ParsedList;
}  // namespace data

/// Returns the extensions of image formats that are not read: ".webp", ".bmp" and others.
[[nodiscard]] const std::vector<std::string>& other_image_extensions();

/// The options of ImageFiles.
struct ImageFilesOptions {
  bool recursive = false;  ///< also searches subfolders; links to folders are followed
  std::vector<std::string> extensions = {".png", ".jpg", ".jpeg"};  ///< in lower case; files match in any case
};

/// The image files of a folder, sorted by folder and name.
class ImageFiles final : public ImageSource {
 public:
  /// Throws: DataError if the folder is missing or holds no such file; IoError.
  explicit ImageFiles(const std::filesystem::path& folder, const ImageFilesOptions& options = {});
  /// Creates a source from these files, in this order.
  [[nodiscard]] static ImageFiles of(std::vector<std::filesystem::path> files);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].string();
  }
  /// Returns the files, sorted by name.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const noexcept { return files_; }

 private:
  ImageFiles() = default;

  std::vector<std::filesystem::path> files_;
};

/// The options of ClassFolders.
struct ClassFoldersOptions {
  bool allow_empty = false;                                         ///< a class may have no files
  std::vector<std::string> extensions = {".png", ".jpg", ".jpeg"};  ///< in lower case; files match in any case
};

/// Reads one folder per class. The label is the index of the folder's name in sorted order. Files in subfolders are
/// included. Source: torchvision.datasets.ImageFolder, with the same order of classes and files.
class ClassFolders final : public ImageSource {
 public:
  /// Throws: DataError if there is no folder in `root`, or none of its files is an image, or a class is empty.
  explicit ClassFolders(const std::filesystem::path& root, const ClassFoldersOptions& options = {});

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].string();
  }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return classes_; }

 private:
  std::vector<std::filesystem::path> files_;
  std::vector<std::int64_t> labels_;
  std::vector<std::string> classes_;
};

/// Reads a list of files with their annotations; paths are relative to the list's folder. CSV (RFC 4180, with a header
/// row): the column `path`; `label`, a number or a class name; other columns become `values` if they hold numbers, else
/// `captions`, in their order. JSON (an array, or one object per line): "path" and any of "label", "labels" (of the
/// boxes if there are any, else `values` of 0 and 1), "caption" or "captions", "boxes" ([x1, y1, x2, y2] each),
/// "values".
class ImageList final : public ImageSource {
 public:
  /// Paths are relative to the folder `images` and must stay inside it (name_inside()). If `images` is empty, the
  /// list's folder is used.
  /// Throws: DataError naming file and line; IoError. A missing file becomes an error only when it is read.
  explicit ImageList(const std::filesystem::path& list, const std::filesystem::path& images = {},
                     bool allow_outside = false);

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] const std::vector<std::string>& class_names() const override;
  /// Returns the names of the columns that became `values`; empty for JSON.
  [[nodiscard]] const std::vector<std::string>& value_names() const noexcept;

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const data::ParsedList> list_;
};

}  // namespace lockstep

#pragma GCC visibility pop
