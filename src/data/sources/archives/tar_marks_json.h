// SPDX-License-Identifier: Apache-2.0
// Reads and writes the annotation files next to an image in a tar shard. Untrusted input; no torch header.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"
#include "lockstep/data/picture.h"

namespace lockstep::data {

/// One file of a sample.
struct TarContent {
  std::string extension;
  std::string_view bytes;
};

[[nodiscard]] bool is_tar_picture(std::string_view extension) noexcept;

/// Reads all files of a sample except its image into `picture`: cls, txt, json, seg.png. Ignores other files.
[[nodiscard]] Result<bool> read_tar_marks(const std::vector<TarContent>& contents, AnnotatedImage& picture);

/// Returns the annotations that cls and txt cannot hold, as JSON.
[[nodiscard]] std::string tar_marks_json(const AnnotatedImage& picture);

}  // namespace lockstep::data
