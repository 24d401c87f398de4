// SPDX-License-Identifier: Apache-2.0
// The places of the parts of a Pascal VOC set, whose folders go by several names. No torch header.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::data {

struct VocFolders {
  std::filesystem::path annotations;
  std::filesystem::path pictures;
  std::filesystem::path lists;  ///< ImageSets/Main; empty: there is none
};

/// Finds the folders of a set: Annotations and JPEGImages, or annotations and images in any spelling, or XML files
/// beside their pictures in `root` itself. None without a folder Annotations or an XML file. Throws: IoError.
[[nodiscard]] std::optional<VocFolders> find_voc(const std::filesystem::path& root);

}  // namespace lockstep::data
