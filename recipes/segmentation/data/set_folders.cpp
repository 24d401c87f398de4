// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/set_folders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep::segmentation {
namespace {

namespace fs = std::filesystem;

struct KnownRole {
  std::string_view name;
  std::vector<std::string> folders;
};

const KnownRole& known(Role role) {
  static const std::array<KnownRole, 6> kRoles{{
      {"images", {"JPEGImages", "images"}},
      {"masks", {"SegmentationClassAug", "SegmentationClass", "masks", "instances"}},
      {"scribbles", {"pascal_2012_scribble", "scribbles"}},
      {"pseudo-labels", {"bmp_pseudolabel", "pseudo_labels"}},
      {"scribble distances", {"distance_map", "distance_scribble"}},
      {"class distances", {"distance_pseudo", "distance_class"}},
  }};
  return kRoles[static_cast<std::size_t>(role)];
}

bool is_folder(const fs::path& path) {
  std::error_code fault;
  return fs::is_directory(path, fault);
}

bool has_pictures(const fs::path& root) {
  return std::ranges::any_of(known(Role::kPictures).folders, [&](const auto& name) { return is_folder(root / name); });
}

bool is_a(FileKind kind, const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& letter : extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return extension == ".png" || (kind == FileKind::kPictures && (extension == ".jpg" || extension == ".jpeg"));
}

/// The first file of a line that names an image and then its maps ("a/x.jpg b/x.png"; names may have spaces); the whole
/// line if it names a single file.
std::string first_file(const std::string& line) {
  for (std::size_t blank = line.find_first_of(" \t"); blank != line.npos;
       blank = line.find_first_of(" \t", blank + 1)) {
    const std::string before = line.substr(0, blank);
    if (is_a(FileKind::kPictures, before) && is_a(FileKind::kPictures, line)) return before;
  }
  return line;
}

/// The name of the image that a string refers to, with or without folder and extension; none if there is no such image.
std::optional<std::string> known_name(const std::string& text, const NamedFiles& pictures) {
  const fs::path file = fs::path(text).filename();
  for (std::string name : {file.string(), picture_name(file)}) {
    if (pictures.files.contains(name)) return name;
  }
  return std::nullopt;
}

NameList read_list(const fs::path& list, const NamedFiles& pictures) {
  NameList names{.names = {}, .from = list.string()};
  std::set<std::string> seen;
  const auto exists = [&](const std::string& line) { return known_name(line, pictures).has_value(); };
  for (const std::string& line : without_flags(read_names(list), exists)) {
    const bool is_name = line.find('/') == line.npos && exists(line);
    const std::string file = is_name ? line : first_file(line);
    const std::string name = known_name(file, pictures).value_or(picture_name(fs::path(file).filename()));
    (seen.insert(name).second ? names.names : names.repeated).push_back(name);
  }
  if (names.names.empty()) throw DataError(fmt::format("list {} names no image", list.string()));
  return names;
}

std::vector<std::string> lists_in(const fs::path& image_sets) {
  std::vector<std::string> found;
  for (const char* kind : {"SegmentationAug", "Segmentation"}) {
    for (const std::string& name : FileSystem::system().list(image_sets / kind))
      found.push_back(fmt::format("{}/{}", kind, name));
  }
  return found;
}

/// The missing image of a map: its file in another format, if there is one.
std::string missing_picture(const fs::path& folder, const std::string& name) {
  for (const std::string& ending : other_image_extensions()) {
    if (const fs::path file = folder / (name + ending); FileSystem::system().exists(file))
      return fmt::format("{} as a PNG or JPEG file", file.string());
  }
  return (folder / name).string();
}

/// Counts the missing files and remembers the first of them.
class Missing {
 public:
  /// Returns true and sets `to` to the file if the folder has a file of this name.
  bool look(const std::string& name, const NamedFiles& files, Role role, fs::path& to) {
    const auto at = files.files.find(name);
    if (at != files.files.end()) {
      to = files.folder / at->second;
      return true;
    }
    if (count_++ > 0) return false;
    const bool picture = role == Role::kPictures;
    first_ = fmt::format("{} of {}", role_name(role),
                         picture ? missing_picture(files.folder, name) : (files.folder / (name + ".png")).string());
    return false;
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] const std::string& first() const noexcept { return first_; }

 private:
  std::int64_t count_ = 0;
  std::string first_;
};

/// A flaw in a set that does not prevent its use.
struct Odd {
  std::string what = {};     ///< empty: no flaw
  std::string hint = {};     ///< hint if the flaw is reported as an error
  std::string instead = {};  ///< the action taken instead of an error
};

void judge(const Odd& odd, bool strict, std::vector<std::string>& notes) {
  if (odd.what.empty()) return;
  if (strict) throw DataError(odd.what, odd.hint);
  notes.push_back(fmt::format("{}; {}", odd.what, odd.instead));
}

Odd repeated_in(const NameList& names) {
  if (names.repeated.empty()) return {};
  return {.what = fmt::format("{} names {} images more than once, the first: {}", names.from, names.repeated.size(),
                              names.repeated.front()),
          .hint = "an image listed twice counts twice: remove one of its lines",
          .instead = "each is used once"};
}

/// Returns a flaw if two files in the folder have the same name and that name is in the list.
Odd twins_of(const NameList& names, const NamedFiles& files) {
  std::int64_t count = 0;
  std::string first;
  for (const std::string& name : names.names) {
    const auto twin = files.twins.find(name);
    if (twin == files.twins.end()) continue;
    if (count++ == 0) first = fmt::format("{} and {}", files.files.at(name), twin->second);
  }
  if (count == 0) return {};
  return {.what = fmt::format("folder {} has two files for {}, the first: {}", files.folder.string(),
                              text::counted(count, "name"), first),
          .hint = "images and maps are matched by file name: rename or remove one of the two",
          .instead = "the first of each pair is used"};
}

/// Adds the names of the maps that have no image, so that they count as incomplete.
void add_names_without_picture(NameList& names, const NamedFiles& pictures, const NamedFiles& maps) {
  for (const auto& [name, file] : maps.files) {
    if (!pictures.files.contains(name)) names.names.push_back(name);
  }
}

}  // namespace

std::string_view role_name(Role role) noexcept { return known(role).name; }

fs::path folder_of(const fs::path& root, Role role, const std::string& given) {
  if (!given.empty()) {
    const fs::path folder = root / given;  // an absolute path replaces the root
    if (is_folder(folder)) return folder;
    throw DataError(fmt::format("folder {} for the {} is missing", folder.string(), role_name(role)));
  }
  for (const std::string& name : known(role).folders) {
    if (is_folder(root / name)) return root / name;
  }
  throw DataError(
      fmt::format("{} has no {}: no folder {}", root.string(), role_name(role), fmt::join(known(role).folders, ", ")),
      role == Role::kPictures || role == Role::kMasks
          ? "pass a folder in the VOC layout, or one with images/ and masks/"
          : "`lockstep generate weak-labels` creates scribbles, pseudo-labels and distance maps from full masks");
}

bool holds_instances(const fs::path& folder) {
  const fs::path name = folder.filename().empty() ? folder.parent_path().filename() : folder.filename();
  return name == "instances";
}

fs::path root_of(const fs::path& path, const std::string& split) {
  if (has_pictures(path)) return path;
  if (!split.empty() && has_pictures(path / split)) return path / split;
  std::error_code fault;
  if (!fs::exists(path, fault)) throw DataError(fmt::format("data set {} does not exist", path.string()));
  if (!is_folder(path)) throw DataError(fmt::format("data set {} is not a folder", path.string()));
  (void)folder_of(path, Role::kPictures, "");  // its error names the missing folder
  return path;
}

std::string picture_name(const fs::path& file) {
  return is_a(FileKind::kPictures, file) ? file.stem().string() : file.filename().string();
}

NamedFiles named_files(const fs::path& folder, FileKind kind) {
  NamedFiles named{folder, {}};
  for (const std::string& file : FileSystem::system().list(folder)) {
    if (file.starts_with('.') || !is_a(kind, file)) continue;  // not part of the set: another program left it
    const std::string name = picture_name(file);
    if (!named.files.try_emplace(name, file).second) named.twins.try_emplace(name, file);
  }
  return named;
}

NameList names_of(const fs::path& root, const std::string& split, const NamedFiles& pictures) {
  const fs::path sets = root / "ImageSets";
  if (is_folder(sets)) {
    for (const char* kind : {"SegmentationAug", "Segmentation"}) {
      const fs::path list = sets / kind / (split + ".txt");
      if (FileSystem::system().exists(list)) return read_list(list, pictures);
    }
    throw DataError(fmt::format("{} has no list {}.txt in SegmentationAug or Segmentation", sets.string(), split),
                    fmt::format("existing lists: {}", fmt::join(lists_in(sets), ", ")));
  }
  NameList names{.names = {}, .from = pictures.folder.string()};
  for (const auto& [name, file] : pictures.files) names.names.push_back(name);
  if (names.names.empty()) throw DataError(fmt::format("folder {} holds no PNG or JPEG file", names.from));
  return names;
}

FileList list_files(const fs::path& path, const FileListOptions& options) {
  const fs::path root = root_of(path, options.split);
  const NamedFiles pictures = named_files(folder_of(root, Role::kPictures, ""), FileKind::kPictures);
  NameList names = names_of(root, options.split, pictures);
  FileList list;
  judge(repeated_in(names), options.strict, list.notes);
  std::vector<NamedFiles> maps;
  for (std::size_t i = 0; i < options.roles.size(); ++i) {
    list.folders.push_back(folder_of(root, options.roles[i], i < options.overrides.size() ? options.overrides[i] : ""));
    maps.push_back(named_files(list.folders.back(), FileKind::kMaps));
  }
  // Masks of a given folder may belong to several sets.
  const bool own_masks = options.overrides.empty() || options.overrides.front().empty();
  if (names.from == pictures.folder && !maps.empty() && own_masks) add_names_without_picture(names, pictures, maps[0]);
  judge(twins_of(names, pictures), options.strict, list.notes);
  for (const NamedFiles& files : maps) judge(twins_of(names, files), options.strict, list.notes);
  Missing missing;
  for (const std::string& name : names.names) {
    SampleFiles sample;
    std::int64_t found = missing.look(name, pictures, Role::kPictures, sample.picture) ? 1 : 0;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      found += missing.look(name, maps[i], options.roles[i], sample.maps.emplace_back()) ? 1 : 0;
    }
    if (found == 1 + std::ssize(maps)) list.samples.push_back(std::move(sample));
  }
  if (missing.count() == 0) return list;
  const std::string what = fmt::format("{}: {} of {} images are incomplete: missing {}, the first: {}", names.from,
                                       names.names.size() - list.samples.size(), names.names.size(),
                                       text::counted(missing.count(), "file"), missing.first());
  if (options.strict) throw DataError(what, "add the files, or set strict to false to continue without these images");
  if (list.samples.empty()) throw DataError(what, "add the files: no image of the set is complete");
  list.notes.push_back(what + "; these images are skipped");
  return list;
}

}  // namespace lockstep::segmentation
