// SPDX-License-Identifier: Apache-2.0
// Reads image features in the format of numpy's savez and savez_compressed: the array `feat`, with a row for each
// region of the image. No torch header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::captioning {

/// Feature rows, stored contiguously.
struct FeatureRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<float> values;
};

/// Parses the array `feat` of an .npz file: little-endian float16, float32 or float64, C or Fortran order, [L, D], or
/// with more dimensions before D, which are flattened. Returns only its first `most_rows` rows; -1 means all. Fails
/// with a reason that names the field: the zip file or the header is damaged or implausible, the type is unsupported,
/// the number of bytes does not match the shape, a dimension is 0, there are more than 2^24 values or one is not
/// finite.
[[nodiscard]] Result<FeatureRows> parse_features(std::string_view npz, std::int64_t most_rows = -1);

/// Parses a file. Thread-safe: yes. Throws: DataError naming the file and the reason; IoError.
[[nodiscard]] FeatureRows read_features(const std::filesystem::path& file, std::int64_t most_rows = -1);

/// The header of an .npy file: a Python dictionary as text. Only the form that numpy writes is accepted; nothing is
/// evaluated.
struct NpyHeader {
  std::string descr;  ///< the type, such as "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< sizes of the dimensions, none negative
  std::size_t size = 0;             ///< number of bytes before the values
};

/// Parses formats 1.0, 2.0 and 3.0. Fails with a reason that names the field.
/// Source: numpy.lib.format's documentation.
[[nodiscard]] Result<NpyHeader> parse_npy_header(std::string_view bytes);

/// The bytes of a zip member: a part of the file if it is not compressed, otherwise unpacked into `own`.
struct ZipContent {
  std::string own;
  std::string_view stored;
  bool deflated = false;

  [[nodiscard]] std::string_view bytes() const noexcept { return deflated ? std::string_view(own) : stored; }
};

/// Reads the member `name` of a zip file, stored or deflated, and checks its CRC-32. Every number is checked against
/// the file size before it is used. (Checkpoint's reader is specific to .pth files, and this one needs to do less.)
/// Fails with the reason: the file is damaged, lacks the member (it names the existing ones), or unpacks to more than
/// `most` bytes. Lifetime: `file` outlives the result. Cost: memory only in proportion to the unpacked bytes.
[[nodiscard]] Result<ZipContent> read_zip_member(std::string_view file, std::string_view name, std::uint64_t most);

}  // namespace lockstep::captioning
