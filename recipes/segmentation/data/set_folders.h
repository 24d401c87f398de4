// SPDX-License-Identifier: Apache-2.0
// Pairs images with maps, for each layout of a segmentation set, as lists of paths. Reads no image. No torch header.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::segmentation {

/// The roles of a set's files.
enum class Role { kPictures, kMasks, kScribbles, kPseudoLabels, kScribbleDistances, kClassDistances };

/// "masks", "scribble distances", ...: for messages.
[[nodiscard]] std::string_view role_name(Role role) noexcept;

/// The folder of a role's files: `given` (relative to `root`, or absolute) unless it is empty; otherwise the first
/// folder in `root` with one of the role's known names.
/// Throws: DataError naming the expected folders if there is none.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& root, Role role, const std::string& given);

/// True if the files in this folder are instance maps, by the folder's name.
[[nodiscard]] bool holds_instances(const std::filesystem::path& folder);

/// The folder that holds the images: `path`, or the folder `split` in it.
/// Throws: DataError if neither does.
[[nodiscard]] std::filesystem::path root_of(const std::filesystem::path& path, const std::string& split);

/// The file's name without an image's extension (.png, .jpg, .jpeg, in any case). Other dots are part of the name.
[[nodiscard]] std::string picture_name(const std::filesystem::path& file);

enum class FileKind { kPictures, kMaps };  ///< maps are PNGs

/// The files of a folder by picture_name().
struct NamedFiles {
  std::filesystem::path folder;
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> twins = {};  ///< later files with a name that is already in `files`
};
/// Lists the files of a folder; none if the folder is missing.
[[nodiscard]] NamedFiles named_files(const std::filesystem::path& folder, FileKind kind);

/// Names without extension: the names in a list of ImageSets if there is such a folder, otherwise of all images,
/// sorted. A line of a list is a name, with or without a folder and an extension; maps or VOC's flags may follow.
struct NameList {
  std::vector<std::string> names;
  std::string from;                        ///< the list or the folder
  std::vector<std::string> repeated = {};  ///< names that occur more than once in the list, and once in `names`
};
/// Throws: DataError if the list is missing (naming the existing ones) or empty.
[[nodiscard]] NameList names_of(const std::filesystem::path& root, const std::string& split,
                                const NamedFiles& pictures);

/// The files of one sample; the maps are in the order of the requested roles.
struct SampleFiles {
  std::filesystem::path picture;
  std::vector<std::filesystem::path> maps;
};

struct FileListOptions {
  std::string split;
  std::vector<Role> roles;             ///< roles of the maps
  std::vector<std::string> overrides;  ///< folders by role; an empty one is found by name
  bool strict = true;
};

struct FileList {
  std::vector<SampleFiles> samples;
  std::vector<std::filesystem::path> folders;  ///< folders of the maps
  std::vector<std::string> notes;
};

/// Lists the samples of a set. Throws: the DataErrors of open_training_set().
[[nodiscard]] FileList list_files(const std::filesystem::path& path, const FileListOptions& options);

}  // namespace lockstep::segmentation
