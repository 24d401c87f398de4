// SPDX-License-Identifier: Apache-2.0
// Turns options into a list of existing images or features.
#include "captioning/data/captions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "captioning/data/caption_files.h"
#include "captioning/metrics/tokens.h"
#include "captioning/synthetic/scene.h"
#include "common/scene_set.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/data/sources/inside.h"

namespace lockstep::captioning {
namespace {

namespace fs = std::filesystem;

// The same limits as in the recipe's options. They are checked here too, for sets opened without a recipe.
constexpr std::int64_t kMostWords = 1000;
constexpr std::int64_t kLargestSide = 8192;
constexpr std::int64_t kLeastSceneSide = 32;
constexpr std::int64_t kLargestSceneSide = 4096;
constexpr std::size_t kShownPath = 300;

void check_set(const SetOptions& options) {
  const auto require = [](std::int64_t value, const char* name, std::int64_t least, std::int64_t most) {
    if (value < least || value > most) {
      throw UsageError(fmt::format("{} is {}, must be {} .. {}", name, value, least, most));
    }
  };
  if (options.path.empty())
    throw UsageError("the path of the caption set is empty", "pass a folder, a file, or scenes:COUNT");
  require(options.max_words, "max_words", 1, kMostWords);
  require(options.captions_per_image, "captions_per_image", 1, 1000);
  require(options.height, "height", 1, kLargestSide);
  require(options.width, "width", 1, kLargestSide);
  require(options.feature_width, "feature_width", 0, 1'000'000);
  if (options.max_features < -1 || options.max_features == 0) {
    throw UsageError(fmt::format("max_features is {}, must be at least 1, or -1 for all", options.max_features));
  }
}

std::vector<CaptionedImage> list_scenes(const SetOptions& options) {
  for (const std::string* given : {&options.split, &options.images, &options.features}) {
    if (given->empty()) continue;
    throw UsageError(fmt::format("'{}' is drawn in memory and has no '{}'", options.path, *given),
                     "scenes have neither splits nor folders: use a different seed for a different set");
  }
  for (const auto& [name, side] : {std::pair{"data.height", options.height}, {"data.width", options.width}}) {
    if (side >= kLeastSceneSide && side <= kLargestSceneSide) continue;
    throw UsageError(
        fmt::format("{} is {} pixels, must be {} .. {} for scenes", name, side, kLeastSceneSide, kLargestSceneSide));
  }
  const common::SceneSet set = common::parse_scene_set(options.path);
  if (set.few) throw UsageError(fmt::format("'{}': scenes with captions have no easy variant 'few'", options.path));
  std::vector<CaptionedImage> images;
  images.reserve(static_cast<std::size_t>(set.count));
  for (std::int64_t i = 0; i < set.count; ++i) {
    images.push_back({.id = fmt::format("{:06}", i), .file = {}, .captions = scene_captions(make_scene(set.seed, i))});
  }
  return images;
}

/// True if `path` exists; false also for a name that no file can have. Throws: IoError if permission is denied.
bool is_there(const fs::path& path) {
  std::error_code fault;
  const bool found = fs::exists(path, fault);
  if (fault == std::errc::permission_denied) {
    throw IoError(fmt::format("cannot search for {}: {}", shown(path.string(), kShownPath), fault.message()),
                  "grant this user permission to enter the folder");
  }
  return found;
}

bool is_folder(const fs::path& path) {
  std::error_code fault;
  return is_there(path) && fs::is_directory(path, fault);
}

bool is_json(const fs::path& file) {
  std::string ending = file.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return ending == ".json";
}

/// The caption file that `path` denotes.
fs::path find_caption_file(const fs::path& path) {
  if (!is_folder(path)) {
    if (is_there(path)) return path;
    throw DataError(fmt::format("{} is missing", shown(path.string(), kShownPath)),
                    "pass a caption file, or a folder with captions.txt or captions.json");
  }
  for (const char* name : {"captions.txt", "captions.json"}) {
    if (is_there(path / name)) return path / name;
  }
  std::vector<fs::path> nlvr;
  for (const std::string& name : FileSystem::system().list(path)) {
    std::error_code broken_link;
    const bool may_be = is_json(name) && !name.starts_with('.') && fs::is_regular_file(path / name, broken_link);
    if (may_be && is_nlvr(path / name)) nlvr.push_back(path / name);
  }
  if (nlvr.size() == 1) return nlvr.front();
  throw DataError(nlvr.empty()
                      ? fmt::format("{} has neither captions.txt nor captions.json, nor an NLVR file", path.string())
                      : fmt::format("{} has {} NLVR files", path.string(), nlvr.size()),
                  "name the file");
}

CaptionTable read_table(const fs::path& file, const SetOptions& options) {
  if (!is_json(file)) {
    if (options.split.empty()) return read_caption_text(file);
    throw UsageError(fmt::format("{} has no split '{}'", file.string(), options.split),
                     "text captions have no splits: use two folders, or lists of ids");
  }
  return is_nlvr(file) ? read_nlvr(file, options.split) : read_caption_json(file, options.split);
}

/// Returns `given` relative to `folder` if it exists there, otherwise unchanged.
fs::path below(const fs::path& folder, const std::string& given) {
  return is_there(folder / given) ? folder / given : fs::path(given);
}

/// Keeps only the images in the list, in its order, with its files. Returns true if the list names files.
bool choose_ids(CaptionTable& table, const fs::path& list_file) {
  const IdList list = read_ids(list_file);
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < table.images.size(); ++i) places.emplace(table.images[i].id, i);
  std::vector<CaptionedImage> chosen;
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < list.ids.size(); ++i) {
    const auto place = places.find(list.ids[i]);
    if (place == places.end()) {
      missing.push_back(list.ids[i]);
      continue;
    }
    chosen.push_back(table.images[place->second]);
    if (!list.files.empty()) chosen.back().file = list.files[i];
  }
  if (!missing.empty()) {
    throw DataError(fmt::format("{}: {} of {} ids have no captions: the first is {}", list_file.string(),
                                missing.size(), list.ids.size(), shown(missing.front())),
                    "remove them from the list, or add their captions");
  }
  table.images = std::move(chosen);
  return !list.files.empty();
}

/// The folder that holds a set's files.
struct FileFolder {
  fs::path folder;
  bool features = false;
  bool listed = false;  ///< true if the list of ids names the files
  fs::path from = {};   ///< the file that names these files
  bool allow_outside = false;

  [[nodiscard]] fs::path file_of(const CaptionedImage& image) const {
    if (features && !listed) return inside(image.id + ".npz");
    const fs::path alone = folder / fs::path(image.file).filename();
    return is_there(folder / image.file) || !is_there(alone) ? inside(image.file) : alone;
  }

 private:
  [[nodiscard]] fs::path inside(const std::string& name) const {
    return folder / name_inside(folder, name, from, allow_outside);
  }
};

fs::path folder_of(const SetOptions& options, const fs::path& root) {
  if (!options.features.empty()) return below(root, options.features);
  if (!options.images.empty()) return below(root, options.images);
  return is_there(root / "images") ? root / "images" : root;
}

void find_files(std::vector<CaptionedImage>& images, const FileFolder& where, const std::string& set) {
  std::int64_t missing = 0;
  std::string first;
  for (CaptionedImage& image : images) {
    const fs::path file = where.file_of(image);
    if (!is_there(file) && missing++ == 0) {
      first = fmt::format("the first is {}, expected at {}", shown(image.id), shown(file.string(), kShownPath));
    }
    image.file = file.string();
  }
  if (missing == 0) return;
  throw DataError(fmt::format("{}: {} of {} ids have no {}: {}", set, missing, images.size(),
                              where.features ? "features" : "image", first),
                  "add the files, set the folder that contains them, or pass a list of the ids to use");
}

std::vector<CaptionedImage> list_files(const SetOptions& options) {
  const fs::path file = find_caption_file(options.path);
  const fs::path root = file.parent_path();
  CaptionTable table = read_table(file, options);
  const bool listed = !options.ids.empty() && choose_ids(table, below(root, options.ids));
  if (table.images.empty()) throw DataError(fmt::format("{} has no images with captions", file.string()));
  const FileFolder where{.folder = folder_of(options, root),
                         .features = !options.features.empty(),
                         .listed = listed,
                         .from = listed ? below(root, options.ids) : file,
                         .allow_outside = options.allow_outside};
  find_files(table.images, where, file.string());
  for (const std::string& note : table.notes) log::note("{}", note);
  return std::move(table.images);
}

}  // namespace

std::vector<CaptionedImage> read_captions(const SetOptions& options) {
  check_set(options);
  if (!common::names_scenes(options.path)) return list_files(options);
  if (options.ids.empty()) return list_scenes(options);
  CaptionTable table{.images = list_scenes(options), .notes = {}};
  (void)choose_ids(table, options.ids);
  return std::move(table.images);
}

}  // namespace lockstep::captioning
