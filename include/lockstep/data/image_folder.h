// SPDX-License-Identifier: Apache-2.0
// A folder of images as a data set, in the order of the file names. The caller defines the target.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/decode.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The files of a folder with one of the requested extensions.
struct FileList {
  std::vector<std::filesystem::path> paths;  ///< sorted by name
  std::int64_t ignored = 0;  ///< number of other entries: hidden, not a regular file, or with a different extension
};

/// Lists the files in `folder`, but not of its subfolders; ".png" also matches ".PNG". Logs how many entries it
/// ignored. Throws: DataError if the folder is missing, is not a folder, or has no matching file; IoError.
[[nodiscard]] FileList list_files(const std::filesystem::path& folder,
                                  const std::vector<std::string>& extensions = {".png", ".jpg", ".jpeg"});

/// The shape and type of a file's target, and the function that writes it. Thread-safe: `write` must be.
struct ImageTarget {
  std::vector<std::int64_t> shape;                ///< sizes of one target
  c10::ScalarType type = c10::ScalarType::Float;  ///< type of its elements
  /// Writes the target of `file` into `out`, which has that shape and type.
  std::function<void(const std::filesystem::path& file, void* out)> write;
};

/// The options of ImageFolder.
struct ImageFolderOptions {
  ColorMode color = ColorMode::kGray;  ///< gray or colour
  ImageSize size = {};                 ///< size of the images; 0 x 0: the first file's size
  bool resize = false;                 ///< resamples files of a different size, which are otherwise an error
  ImageTarget target = {};             ///< target of each file; if `write` is empty, there are no targets
};

/// Yields images as float32 C x H x W in 0 .. 1.
/// Throws: get() throws DataError naming the file if it is damaged or has a different size.
class ImageFolder final : public FixedShapeDataset {
 public:
  /// Throws: anything list_files() throws.
  ImageFolder(const std::filesystem::path& folder, ImageFolderOptions options);
  /// Uses the given files, in the given order. Throws: UsageError if there is none.
  ImageFolder(std::vector<std::filesystem::path> files, ImageFolderOptions options);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] SampleSpec spec() const override;
  void get_into(std::int64_t index, SampleContext& context, SampleSlot slot) override;
  [[nodiscard]] std::string describe(std::int64_t index) const override {
    return files_[static_cast<std::size_t>(index)].string();
  }

  /// Returns the files in the order of the samples.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const noexcept { return files_; }
  /// Returns the size of every image.
  [[nodiscard]] ImageSize image_size() const noexcept { return options_.size; }

 private:
  std::vector<std::filesystem::path> files_;
  ImageFolderOptions options_;
};

/// Reads one file as ImageFolder does: C x H x W floats at `out`.
/// Throws: DataError naming the file, with both sizes if its size is not `options.size`.
void read_image_into(const std::filesystem::path& file, const ImageFolderOptions& options, float* out);

}  // namespace lockstep

#pragma GCC visibility pop
