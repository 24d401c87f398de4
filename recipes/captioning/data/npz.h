// SPDX-License-Identifier: Apache-2.0
// Features of a picture as numpy's savez and savez_compressed write them: `feat`, a row for each place in the picture.
// No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::captioning {

/// Rows after each other.
struct FeatureRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<float> values;
};

/// The array `feat` of an .npz file: float16, float32 or float64 in little endian, C or Fortran order, [L, D], or with
/// more sides before D, which count as one. Only its first `most_rows` rows; -1: all. Fails with the reason, which
/// names the field: the zip file or the header is damaged or absurd, the type is another, the bytes are more or less
/// than the shape wants, a side is 0, there are more than 2^24 values, or one is not finite.
[[nodiscard]] Result<FeatureRows> parse_features(std::string_view npz, std::int64_t most_rows = -1);

/// The same of a file. Thread-safe: yes. Throws: DataError naming the file and the reason; IoError.
[[nodiscard]] FeatureRows read_features(const std::filesystem::path& file, std::int64_t most_rows = -1);

}  // namespace lockstep::captioning
