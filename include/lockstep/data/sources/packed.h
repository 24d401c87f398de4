// SPDX-License-Identifier: Apache-2.0
// Packed files: a whole set in one file that is mapped into memory, with pixels that were decoded when it was written.
// docs/design/data_sources.md defines the format. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {
namespace data {
class PackedFile;
class PackedSink;
}  // namespace data

/// The options of PackedWriter.
struct PackedOptions {
  bool encoded = false;               ///< stores the original files' bytes: smaller, but decoded on every use
  ColorMode color = ColorMode::kRgb;  ///< colour mode of decoded images
  std::int64_t max_side = 0;          ///< longest side in pixels, to which larger images are shrunk; 0: no limit
  std::vector<std::string> class_names = {};  ///< names by class id, which are stored in the file
};

/// A sample as it is stored in the file.
struct PackedSample {
  Pixels pixels;           ///< decoded, unless PackedOptions::encoded
  std::string marks;       ///< everything else, encoded
  std::uint64_t hash = 0;  ///< XXH3-64 of pixels and marks
};

/// Writes a packed file, under a temporary name until finish(). Thread-safe: only prepare().
class PackedWriter {
 public:
  /// Throws: IoError; UsageError if both `encoded` and `max_side` are set.
  PackedWriter(std::filesystem::path path, PackedOptions options);
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;

  /// Decodes and shrinks an image, which is the slow part. Throws: DataError naming the image.
  [[nodiscard]] PackedSample prepare(AnnotatedImage picture) const;
  /// Appends a sample. Throws: IoError.
  void append(PackedSample sample);
  /// Prepares and appends an image. Throws: DataError naming the image; IoError.
  void add(AnnotatedImage picture) { append(prepare(std::move(picture))); }
  /// Completes the file and gives it its final name. Throws: IoError; DataError if it has no sample.
  void finish();

  /// Returns the number of samples so far.
  [[nodiscard]] std::int64_t size() const noexcept;
  /// Returns the number of bytes written so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

 private:
  PackedOptions options_;
  std::unique_ptr<data::PackedSink> sink_;
};

/// Yields the samples of a packed file. Decoded pixels are used in place, without a copy.
/// Lifetime: images keep the file mapped. Thread-safe: yes.
class PackedImages final : public ImageSource {
 public:
  /// Throws: DataError naming path and offset if the file is missing, truncated, or damaged; IoError.
  explicit PackedImages(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t size() const override;
  /// Returns a sample, and verifies its hash on the first read.
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] const std::vector<std::string>& class_names() const override;

  /// Verifies the hash of every sample; `progress` receives the number of samples verified so far.
  /// Throws: DataError naming the first sample whose hash differs, and its offset.
  void check(const std::function<void(std::int64_t)>& progress = {}) const;

 private:
  std::shared_ptr<data::PackedFile> file_;
};

}  // namespace lockstep

#pragma GCC visibility pop
