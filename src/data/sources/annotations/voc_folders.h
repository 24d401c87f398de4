// SPDX-License-Identifier: Apache-2.0
// Finds the folders of a Pascal VOC set, which have several usual names. No torch header.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::data {

struct VocFolders {
  std::filesystem::path annotations;
  std::filesystem::path pictures;
  std::filesystem::path lists;  ///< ImageSets/Main; empty if there is none
};

/// Finds the folders of a set: Annotations and JPEGImages, or annotations and images in any case, or XML files next to
/// their images in `root` itself. Returns none if there is neither an Annotations folder nor an XML file. Throws:
/// IoError.
[[nodiscard]] std::optional<VocFolders> find_voc(const std::filesystem::path& root);

}  // namespace lockstep::data
