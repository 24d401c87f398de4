// SPDX-License-Identifier: Apache-2.0
// Detects the layout of a path, and opens it.
#include "lockstep/data/sources/open_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "data/sources/annotations/voc_folders.h"
#include "data/sources/files/files.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sources/coco.h"
#include "lockstep/data/sources/idx.h"
#include "lockstep/data/sources/image_files.h"
#include "lockstep/data/sources/mask_folders.h"
#include "lockstep/data/sources/packed.h"
#include "lockstep/data/sources/tar_shards.h"
#include "lockstep/data/sources/voc.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<SourceKind, std::string_view>, 10> kNames = {{{SourceKind::kAuto, "auto"},
                                                                             {SourceKind::kFolder, "folder"},
                                                                             {SourceKind::kClasses, "classes"},
                                                                             {SourceKind::kList, "list"},
                                                                             {SourceKind::kCoco, "coco"},
                                                                             {SourceKind::kVoc, "voc"},
                                                                             {SourceKind::kMasks, "masks"},
                                                                             {SourceKind::kTar, "tar"},
                                                                             {SourceKind::kPacked, "packed"},
                                                                             {SourceKind::kIdx, "idx"}}};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [kind, name] : kNames) all.emplace_back(name);
  return all;
}

const std::vector<std::string> kPictures = {".png", ".jpg", ".jpeg"};

DataError unknown(const std::string& path) {
  return DataError(fmt::format("{} is not a data set of a known layout", path), "specify the layout with --type");
}

SourceKind kind_of_file(const fs::path& path) {
  const std::string extension = data::lower_case(path.extension().string());
  if (extension == ".csv" || extension == ".jsonl" || extension == ".ndjson") return SourceKind::kList;
  if (extension == ".tar") return SourceKind::kTar;
  const std::string start = data::first_bytes(path, 64);
  if (start.starts_with(data::kPackedMagic)) return SourceKind::kPacked;
  if (extension == ".json") {
    const std::size_t first = start.find_first_of("[{");  // skips a byte order mark
    return first != std::string::npos && start[first] == '[' ? SourceKind::kList : SourceKind::kCoco;
  }
  const bool gzip = extension == ".gz" && path.filename().string().find("idx") != std::string::npos;
  if (gzip || start.starts_with(std::string_view("\0\0\x08", 3))) return SourceKind::kIdx;
  throw unknown(path.string());
}

/// Returns the annotation file in a folder of images: of COCO, or of Roboflow's COCO export.
fs::path coco_file(const fs::path& folder) {
  const fs::path usual = folder / "annotations.json";
  const fs::path exported = folder / "_annotations.coco.json";
  return !fs::is_regular_file(usual) && fs::is_regular_file(exported) ? exported : usual;
}

/// Returns the first name that begins with `start`, or `usual` if there is none.
std::string first_with(const std::vector<std::string>& names, const char* start, const char* usual) {
  const auto found = std::ranges::find_if(names, [&](const auto& name) { return name.starts_with(start); });
  return found == names.end() ? usual : *found;
}

/// Throws: DataError if the folder has a layout of detection sets, so that its folders are not classes.
void require_no_detection_layout(const fs::path& folder) {
  const std::vector<std::string> folders = data::folders_in(folder);
  const auto has = [&](const char* name) { return std::ranges::find(folders, name) != folders.end(); };
  if (has("annotations")) {
    std::vector<std::string> files;
    for (const fs::path& file : data::files_in(folder / "annotations", {".json"})) files.push_back(file.filename());
    const std::string file = first_with(files, "instances_train", "instances_train2017.json");
    throw DataError(fmt::format("{} holds a folder annotations, so its folders are not classes", folder.string()),
                    fmt::format("for COCO, pass the annotation file and the folder of its images: data.train={} "
                                "data.train_images={}",
                                (folder / "annotations" / file).string(),
                                (folder / first_with(folders, "train", "train2017")).string()));
  }
  if (has("labels")) {
    throw DataError(fmt::format("{} holds a folder labels, so its folders are not classes", folder.string()),
                    "YOLO's text labels are not read: convert them to COCO's JSON of instances");
  }
}

SourceKind kind_of_folder(const fs::path& folder) {
  if (fs::is_regular_file(coco_file(folder))) return SourceKind::kCoco;
  if (fs::is_directory(folder / "JPEGImages")) {
    return fs::is_directory(folder / "Annotations") ? SourceKind::kVoc : SourceKind::kMasks;
  }
  const bool has_masks = fs::is_directory(folder / "instances") || fs::is_directory(folder / "masks");
  if (fs::is_directory(folder / "images") && has_masks) return SourceKind::kMasks;
  if (data::find_voc(folder)) return SourceKind::kVoc;
  if (!data::files_in(folder, kPictures).empty()) return SourceKind::kFolder;
  if (!data::files_in(folder, {".tar"}).empty()) return SourceKind::kTar;
  for (const fs::path& file : data::files_in(folder, {".gz", "", ".idx3-ubyte"})) {
    if (file.filename().string().find("images") != std::string::npos && kind_of_file(file) == SourceKind::kIdx) {
      return SourceKind::kIdx;
    }
  }
  require_no_detection_layout(folder);
  if (const std::vector<std::string> splits = split_folders(folder.string()); !splits.empty()) {
    throw DataError(fmt::format("{} holds splits: {}", folder.string(), text::join(splits)),
                    fmt::format("choose one of them: {}", (folder / splits.front()).string()));
  }
  for (const std::string& name : data::folders_in(folder)) {
    if (!data::files_below(folder / name, kPictures).empty()) return SourceKind::kClasses;
  }
  throw unknown(folder.string());
}

/// Returns the first of these folders that exists; if none does, the first.
fs::path first_folder(const fs::path& root, const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (fs::is_directory(root / name)) return root / name;
  }
  return root / names.front();
}

std::shared_ptr<ImageSource> open_masks(const SourceOptions& options) {
  const fs::path root = options.path;
  MaskFoldersOptions how;
  how.class_names = mask_class_names(root);
  how.allow_outside = options.allow_outside;
  if (fs::is_directory(root / "JPEGImages")) {
    const fs::path lists = first_folder(root / "ImageSets", {"SegmentationAug", "Segmentation"});
    if (!options.split.empty()) how.list = lists / (options.split + ".txt");
    const fs::path masks = first_folder(root, {"SegmentationClassAug", "SegmentationClass"});
    return std::make_shared<MaskFolders>(root / "JPEGImages", masks, how);
  }
  if (fs::is_directory(root / "masks")) return std::make_shared<MaskFolders>(root / "images", root / "masks", how);
  how.meaning = options.masks ? MaskMeaning::kInstances : MaskMeaning::kForeground;
  if (options.masks) how.class_names.clear();  // with instance masks, all objects have the same class
  return std::make_shared<MaskFolders>(root / "images", root / "instances", how);
}

std::shared_ptr<ImageSource> open_shards(const SourceOptions& options) {
  const TarOptions options_of_shards{.strict = options.strict};
  if (!fs::is_directory(options.path)) return std::make_shared<TarShards>(options.path, options_of_shards);
  std::vector<std::string> shards;
  for (const fs::path& shard : data::files_in(options.path, {".tar"})) shards.push_back(shard.string());
  if (shards.empty()) throw DataError(fmt::format("folder {} contains no tar file", options.path));
  return std::make_shared<TarShards>(shards, options_of_shards);
}

}  // namespace

SourceKind parse_source_kind(std::string_view name) {
  for (const auto& [kind, known] : kNames) {
    if (name == known) return kind;
  }
  throw UsageError(fmt::format("there is no source type '{}'{}", name, text::did_you_mean(name, names())),
                   fmt::format("available types: {}", text::join(names())));
}

std::vector<std::string> split_folders(const std::string& path) {
  static const std::set<std::string> kSplits = {"train", "training", "val", "valid",   "validation",
                                                "test",  "testing",  "dev", "predict", "trainval"};
  if (!fs::is_directory(path) || fs::is_directory(fs::path(path) / "Annotations")) return {};
  std::vector<std::string> found;
  for (const std::string& name : data::folders_in(path)) {
    if (data::files_below(fs::path(path) / name, kPictures).empty()) continue;
    if (!kSplits.contains(data::lower_case(name))) return {};
    found.push_back(name);
  }
  const bool learns = std::ranges::any_of(found, [](const auto& name) { return name.starts_with("train"); });
  return learns && data::files_in(path, kPictures).empty() ? found : std::vector<std::string>{};
}

SourceKind detect_source(const std::string& path) {
  if (path.find('{') != std::string::npos || path.starts_with("pipe:")) return SourceKind::kTar;
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (!fs::exists(status)) throw DataError(fmt::format("{} does not exist", path));
  return fs::is_directory(status) ? kind_of_folder(path) : kind_of_file(path);
}

std::shared_ptr<ImageSource> open_source(const SourceOptions& options) {
  if (options.kind == SourceKind::kAuto && !options.split.empty()) {
    const std::vector<std::string> splits = split_folders(options.path);
    if (std::ranges::find(splits, options.split) != splits.end()) {
      SourceOptions one = options;
      one.path = (fs::path(options.path) / options.split).string();
      one.split.clear();
      return open_source(one);
    }
  }
  const SourceKind kind = options.kind == SourceKind::kAuto ? detect_source(options.path) : options.kind;
  switch (kind) {
    case SourceKind::kFolder:
      return std::make_shared<ImageFiles>(options.path, ImageFilesOptions{.recursive = options.recursive});
    case SourceKind::kClasses:
      return std::make_shared<ClassFolders>(options.path);
    case SourceKind::kList:
      return std::make_shared<ImageList>(options.path, options.images, options.allow_outside);
    case SourceKind::kTar:
      return open_shards(options);
    case SourceKind::kCoco: {
      const fs::path file = fs::is_directory(options.path) ? coco_file(options.path) : fs::path(options.path);
      return std::make_shared<CocoImages>(file, CocoOptions{.images = options.images,
                                                            .masks = options.masks,
                                                            .remap = options.remap,
                                                            .strict = options.strict,
                                                            .allow_outside = options.allow_outside});
    }
    case SourceKind::kVoc: {
      VocOptions voc{.strict = options.strict, .allow_outside = options.allow_outside};
      if (!options.split.empty()) voc.split = options.split;
      voc.class_names = options.class_names;
      return std::make_shared<VocImages>(options.path, voc);
    }
    case SourceKind::kMasks:
      return open_masks(options);
    case SourceKind::kIdx: {
      const IdxPaths paths = find_idx(options.path, options.split.empty() ? "train" : options.split);
      return std::make_shared<IdxImages>(paths.images, paths.labels);
    }
    case SourceKind::kPacked:
      return std::make_shared<PackedImages>(options.path);
    case SourceKind::kAuto:
      break;
  }
  throw InternalError(fmt::format("the layout of {} was not detected", options.path));
}

}  // namespace lockstep
