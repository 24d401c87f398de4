// SPDX-License-Identifier: Apache-2.0
#include "segmentation/set_folders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep::segmentation {
namespace {

namespace fs = std::filesystem;

struct KnownRole {
  std::string_view name;
  std::vector<std::string> folders;
};

const KnownRole& known(Role role) {
  static const std::array<KnownRole, 6> kRoles{{
      {"pictures", {"JPEGImages", "images"}},
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

bool is_picture(const fs::path& file) {
  std::string extension = file.extension().string();
  for (char& letter : extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// File names by stem: one look at the folder instead of one for each file.
std::map<std::string, std::string> files_by_stem(const fs::path& folder, bool maps) {
  std::map<std::string, std::string> files;
  for (const std::string& name : FileSystem::system().list(folder)) {
    const fs::path file(name);
    if (maps ? file.extension() == ".png" : is_picture(file)) files.try_emplace(file.stem().string(), name);
  }
  return files;
}

NameList read_list(const fs::path& list) {
  NameList names{.names = {}, .from = list.string()};
  std::istringstream lines(FileSystem::system().read(list));
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) continue;
    const std::string name = fs::path(word).stem().string();
    (seen.insert(name).second ? names.names : names.repeated).push_back(name);
  }
  if (names.names.empty()) throw DataError(fmt::format("list {} names no picture", list.string()));
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

/// What is missing, by role, counted.
class Missing {
 public:
  void add(Role role, const fs::path& expected) {
    ++count_;
    if (first_.empty()) first_ = fmt::format("{} of {}", role_name(role), expected.string());
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] const std::string& first() const noexcept { return first_; }

 private:
  std::int64_t count_ = 0;
  std::string first_;
};

}  // namespace

std::string_view role_name(Role role) noexcept { return known(role).name; }

fs::path folder_of(const fs::path& root, Role role, const std::string& given) {
  if (!given.empty()) {
    const fs::path folder = root / given;  // an absolute path replaces the root
    if (is_folder(folder)) return folder;
    throw DataError(fmt::format("folder {} of the {} is missing", folder.string(), role_name(role)));
  }
  for (const std::string& name : known(role).folders) {
    if (is_folder(root / name)) return root / name;
  }
  throw DataError(
      fmt::format("{} has no {}: no folder {}", root.string(), role_name(role), fmt::join(known(role).folders, ", ")),
      role == Role::kPictures || role == Role::kMasks
          ? "name the folder of a set in the layout of VOC, or one with images/ and masks/"
          : "`lockstep generate weak-labels` makes scribbles, pseudo-labels and distance maps of full masks");
}

bool holds_instances(const fs::path& folder) {
  const fs::path name = folder.filename().empty() ? folder.parent_path().filename() : folder.filename();
  return name == "instances";
}

fs::path root_of(const fs::path& path, const std::string& split) {
  if (has_pictures(path)) return path;
  if (!split.empty() && has_pictures(path / split)) return path / split;
  if (!is_folder(path)) throw DataError(fmt::format("set {} is no folder", path.string()));
  (void)folder_of(path, Role::kPictures, "");  // says what is missing
  return path;
}

NameList names_of(const fs::path& root, const std::string& split) {
  const fs::path sets = root / "ImageSets";
  if (is_folder(sets)) {
    for (const char* kind : {"SegmentationAug", "Segmentation"}) {
      const fs::path list = sets / kind / (split + ".txt");
      if (FileSystem::system().exists(list)) return read_list(list);
    }
    throw DataError(fmt::format("{} has no list {}.txt in SegmentationAug or Segmentation", sets.string(), split),
                    fmt::format("lists that are there: {}", fmt::join(lists_in(sets), ", ")));
  }
  const fs::path folder = folder_of(root, Role::kPictures, "");
  NameList names{.names = {}, .from = folder.string()};
  for (const auto& [stem, name] : files_by_stem(folder, false)) names.names.push_back(stem);
  if (names.names.empty()) throw DataError(fmt::format("folder {} holds no PNG or JPEG file", folder.string()));
  return names;
}

FileList list_files(const fs::path& path, const FileListOptions& options) {
  const fs::path root = root_of(path, options.split);
  const NameList names = names_of(root, options.split);
  FileList list;
  if (!names.repeated.empty()) {
    const std::string what = fmt::format("{} names {} pictures more than once, the first: {}", names.from,
                                         names.repeated.size(), names.repeated.front());
    if (options.strict) throw DataError(what, "a picture that stands twice counts twice: take it out of the list");
    list.notes.push_back(what + "; each is used once");
  }
  const fs::path pictures = folder_of(root, Role::kPictures, "");
  const auto picture_files = files_by_stem(pictures, false);
  std::vector<std::map<std::string, std::string>> map_files;
  for (std::size_t i = 0; i < options.roles.size(); ++i) {
    list.folders.push_back(folder_of(root, options.roles[i], i < options.overrides.size() ? options.overrides[i] : ""));
    map_files.push_back(files_by_stem(list.folders.back(), true));
  }
  Missing missing;
  std::int64_t left_out = 0;
  for (const std::string& name : names.names) {
    const std::int64_t before = missing.count();
    SampleFiles files;
    if (const auto at = picture_files.find(name); at != picture_files.end()) {
      files.picture = pictures / at->second;
    } else {
      missing.add(Role::kPictures, pictures / name);
    }
    for (std::size_t i = 0; i < options.roles.size(); ++i) {
      files.maps.push_back(list.folders[i] / (name + ".png"));
      if (!map_files[i].contains(name)) missing.add(options.roles[i], files.maps.back());
    }
    if (missing.count() == before) {
      list.samples.push_back(std::move(files));
    } else {
      ++left_out;
    }
  }
  if (missing.count() == 0) return list;
  const std::string what = fmt::format("{}: {} files of {} of {} pictures are missing, the first: {}", names.from,
                                       missing.count(), left_out, names.names.size(), missing.first());
  if (options.strict) throw DataError(what, "add the files, or set strict to false to go on without these pictures");
  if (list.samples.empty()) throw DataError(what, "nothing is left of the set");
  list.notes.push_back(what + "; these pictures are left out");
  return list;
}

}  // namespace lockstep::segmentation
