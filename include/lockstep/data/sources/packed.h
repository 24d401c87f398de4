// SPDX-License-Identifier: Apache-2.0
// Packed files: a whole set in one file that is mapped into memory, its pixels decoded once and for all. The format is
// in docs/design/data_sources.md. No torch header.
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

struct PackedOptions {
  bool encoded = false;               ///< keep the files' bytes: smaller, and decoded at every use
  ColorMode color = ColorMode::kRgb;  ///< of what is decoded
  std::int64_t max_side = 0;          ///< pixels: larger pictures are shrunk to it; 0: never
  std::vector<std::string> class_names = {};
};

/// A sample as it will lie in the file.
struct PackedSample {
  Pixels pixels;      ///< decoded, unless PackedOptions::encoded
  std::string marks;  ///< everything else
  std::uint64_t hash = 0;
};

/// Writes a packed file: under a temporary name until finish(). Thread-safe: prepare() is.
class PackedWriter {
 public:
  /// Throws: IoError; UsageError where both `encoded` and `max_side` are wanted.
  PackedWriter(std::filesystem::path path, PackedOptions options);
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;

  /// Decodes and shrinks: what costs time. Throws: DataError naming the picture.
  [[nodiscard]] PackedSample prepare(AnnotatedImage picture) const;
  /// Throws: IoError.
  void append(PackedSample sample);
  void add(AnnotatedImage picture) { append(prepare(std::move(picture))); }
  /// Completes the file and puts it in its place. Throws: IoError; DataError where it has no sample.
  void finish();

  [[nodiscard]] std::int64_t size() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;

 private:
  PackedOptions options_;
  std::unique_ptr<data::PackedSink> sink_;
};

/// The samples of a packed file. Decoded pixels are used where they lie, without a copy.
/// Lifetime: pictures keep the file mapped. Thread-safe: yes.
class PackedImages final : public ImageSource {
 public:
  /// Throws: DataError naming path and offset where the file is missing, cut short, or not what was written; IoError.
  explicit PackedImages(const std::filesystem::path& path);

  [[nodiscard]] std::int64_t size() const override;
  /// Compares a sample's hash the first time that it is read.
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  [[nodiscard]] const std::vector<std::string>& class_names() const override;

  /// Compares the hash of every sample; `progress` is told how many are done.
  /// Throws: DataError naming the first sample that differs, and its offset.
  void check(const std::function<void(std::int64_t)>& progress = {}) const;

 private:
  std::shared_ptr<data::PackedFile> file_;
};

}  // namespace lockstep

#pragma GCC visibility pop
