// SPDX-License-Identifier: Apache-2.0
#include "data/sources/annotations/voc_folders.h"

#include <algorithm>

#include "data/sources/files/files.h"
#include "lockstep/base/file_system.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kXml = {".xml"};

/// Returns the folder in `root` with the first of these names, in any case; empty if there is none.
fs::path folder_called(const fs::path& root, const std::vector<std::string>& names) {
  const std::vector<std::string> folders = folders_in(root);
  for (const std::string& name : names) {
    const auto found = std::find_if(folders.begin(), folders.end(),
                                    [&](const std::string& folder) { return lower_case(folder) == name; });
    if (found != folders.end()) return root / *found;
  }
  return {};
}

}  // namespace

std::optional<VocFolders> find_voc(const fs::path& root) {
  VocFolders folders{.annotations = folder_called(root, {"annotations", "annotation", "xmls", "xml"}),
                     .pictures = folder_called(root, {"jpegimages", "images", "image", "pictures"}),
                     .lists = root / "ImageSets" / "Main"};
  if (!FileSystem::system().exists(folders.lists)) folders.lists.clear();
  if (folders.annotations.empty()) folders.annotations = root;
  const bool is_named = folders.annotations.filename() == "Annotations";
  if (!is_named && files_in(folders.annotations, kXml).empty()) return std::nullopt;
  if (folders.pictures.empty()) folders.pictures = folders.annotations;
  return folders;
}

}  // namespace lockstep::data
