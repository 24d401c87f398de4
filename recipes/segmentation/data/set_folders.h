// SPDX-License-Identifier: Apache-2.0
// Which files belong together: the layouts of a segmentation set, as lists of paths. Reads no picture. No torch header.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::segmentation {

/// The files of a set, by role.
enum class Role { kPictures, kMasks, kScribbles, kPseudoLabels, kScribbleDistances, kClassDistances };

/// "masks", "scribble distances", ...: for messages.
[[nodiscard]] std::string_view role_name(Role role) noexcept;

/// Where a role's files lie: `given` (relative to `root`, or absolute) where it is not empty, else the first folder of
/// the role's known names in `root`.
/// Throws: DataError naming what was looked for where there is none.
[[nodiscard]] std::filesystem::path folder_of(const std::filesystem::path& root, Role role, const std::string& given);

/// Whether the files of this folder are instance maps: its name says so.
[[nodiscard]] bool holds_instances(const std::filesystem::path& folder);

/// `root`, or the folder `split` in it where that holds the pictures.
/// Throws: DataError where neither does.
[[nodiscard]] std::filesystem::path root_of(const std::filesystem::path& path, const std::string& split);

/// The file's name without the extension of a picture (.png, .jpg, .jpeg, in any case). Other dots are part of the
/// name.
[[nodiscard]] std::string picture_name(const std::filesystem::path& file);

enum class FileKind { kPictures, kMaps };  ///< maps are PNGs

/// The files of a folder by picture_name().
struct NamedFiles {
  std::filesystem::path folder;
  std::map<std::string, std::string> files;
  std::map<std::string, std::string> twins = {};  ///< a later file of a name that `files` has already
};
/// Empty where the folder is missing.
[[nodiscard]] NamedFiles named_files(const std::filesystem::path& folder, FileKind kind);

/// Names without extension: of ImageSets' list where there is a folder ImageSets, else of all pictures, sorted. A line
/// of a list is a name, with or without a folder and an extension; names of maps may follow it, or VOC's flags.
struct NameList {
  std::vector<std::string> names;
  std::string from;                        ///< the list or the folder
  std::vector<std::string> repeated = {};  ///< names that stand more than once in the list; once in `names`
};
/// Throws: DataError where the list is missing (naming those that are there) or empty.
[[nodiscard]] NameList names_of(const std::filesystem::path& root, const std::string& split,
                                const NamedFiles& pictures);

/// One sample's files; the maps stand in the order of the roles that were asked for.
struct SampleFiles {
  std::filesystem::path picture;
  std::vector<std::filesystem::path> maps;
};

struct FileListOptions {
  std::string split;
  std::vector<Role> roles;             ///< roles of the maps
  std::vector<std::string> overrides;  ///< folders by role; empty: looked for
  bool strict = true;
};

struct FileList {
  std::vector<SampleFiles> samples;
  std::vector<std::filesystem::path> folders;  ///< folders of the maps
  std::vector<std::string> notes;
};

/// Throws: DataError as said at open_training_set().
[[nodiscard]] FileList list_files(const std::filesystem::path& path, const FileListOptions& options);

}  // namespace lockstep::segmentation
