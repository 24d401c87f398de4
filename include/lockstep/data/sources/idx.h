// SPDX-License-Identifier: Apache-2.0
// IDX files, the format of MNIST: arrays of numbers of one type with any dimensions, often gzipped. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The format's own type codes.
enum class IdxType : std::uint8_t {
  kUint8 = 0x08,    ///< one byte
  kInt8 = 0x09,     ///< one signed byte
  kInt16 = 0x0B,    ///< two bytes
  kInt32 = 0x0C,    ///< four bytes
  kFloat32 = 0x0D,  ///< single precision
  kFloat64 = 0x0E,  ///< double precision
};

/// Returns the size of one number, in bytes.
[[nodiscard]] std::int64_t idx_bytes(IdxType type) noexcept;

/// The content of an IDX file.
struct IdxFile {
  IdxType type = IdxType::kUint8;   ///< type of the numbers
  std::vector<std::int64_t> shape;  ///< sizes, the number of entries first
  std::string bytes;                ///< the numbers, in this machine's byte order

  /// Reads a file, which may be gzipped. Throws: DataError naming path and byte; IoError.
  [[nodiscard]] static IdxFile read(const std::filesystem::path& path);
  /// Returns number `index`, converted to double.
  [[nodiscard]] double at(std::int64_t index) const;
};

/// Yields images N x H x W (or N x H x W x 3) of bytes, and N labels of any integer type.
class IdxImages final : public ImageSource {
 public:
  /// An empty `labels` means no labels.
  /// Throws: DataError naming the file if its type or shape is wrong, or if the numbers of images and labels differ.
  explicit IdxImages(const std::filesystem::path& images, const std::filesystem::path& labels = {});

  [[nodiscard]] std::int64_t size() const override { return images_.shape.front(); }
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  /// Returns the size of every image.
  [[nodiscard]] ImageSize image_size() const noexcept { return {images_.shape[2], images_.shape[1]}; }
  /// Returns the number of channels, 1 or 3.
  [[nodiscard]] std::int64_t channels() const noexcept { return images_.shape.size() == 4 ? 3 : 1; }
  /// Returns true if there is a labels file.
  [[nodiscard]] bool has_labels() const noexcept { return !labels_.empty(); }
  /// Returns the pixels of image `index`. Lifetime: as long as this object.
  [[nodiscard]] const std::uint8_t* pixels(std::int64_t index) const;
  /// Returns the label of image `index`; 0 if there are none.
  [[nodiscard]] std::int64_t label(std::int64_t index) const;

 private:
  std::string name_;
  IdxFile images_;
  std::vector<std::int64_t> labels_;
};

/// The files of a split in a folder: "train" finds train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz, or
/// train-images.idx3-ubyte and the like.
struct IdxPaths {
  std::filesystem::path images;  ///< the images file
  std::filesystem::path labels;  ///< the labels file; empty if there is none
};
/// Finds the files. `images` is a folder, which is searched for `split`, or the images file. Throws: DataError.
[[nodiscard]] IdxPaths find_idx(const std::filesystem::path& images, const std::string& split = "train");

}  // namespace lockstep

#pragma GCC visibility pop
