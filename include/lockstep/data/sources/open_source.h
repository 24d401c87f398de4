// SPDX-License-Identifier: Apache-2.0
// Opens any kind of source: creates an ImageSource from a path that a user typed. No torch header.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {

/// The layouts that open_source() supports.
enum class SourceKind {
  kAuto,     ///< detected from the path's name and its content
  kFolder,   ///< image files of one folder
  kClasses,  ///< a folder for each class
  kList,     ///< CSV, JSON or JSON lines that name the files
  kCoco,     ///< COCO's JSON of instances, keypoints or captions, or a folder with such a file, named annotations.json
             ///< or _annotations.coco.json (Roboflow)
  kVoc,      ///< Pascal VOC: JPEGImages, Annotations, ImageSets, or images and annotations (VocImages)
  kMasks,    ///< a folder of images and a folder of masks: images + masks or instances, or VOC's SegmentationClass[Aug]
  kTar,      ///< shards in WebDataset's layout
  kPacked,   ///< Lockstep's packed file
  kIdx,      ///< MNIST's IDX files
};

/// Parses the name of a layout in configurations: "auto", "folder", ... Throws: UsageError suggesting the nearest name.
[[nodiscard]] SourceKind parse_source_kind(std::string_view name);

/// The arguments of open_source().
struct SourceOptions {
  std::string path;                     ///< a file, a folder, or shards such as "train-{000000..000012}.tar"
  SourceKind kind = SourceKind::kAuto;  ///< the layout
  std::filesystem::path images = {};    ///< lists, COCO: folder of the images; empty: that of the list or JSON file
  /// The split. VOC: a list in ImageSets; IDX: the beginning of the file names; a folder of splits: one of them. Empty
  /// means "trainval" for VOC and "train" for IDX.
  std::string split = {};
  bool recursive = false;      ///< folder: also searches subfolders
  bool masks = false;          ///< COCO: a mask for each object; mask folders: reads an instance map as objects
  bool allow_outside = false;  ///< lists, COCO, VOC: lets names point outside the folder (name_inside())
  bool remap = true;           ///< COCO: labels 0 .. n - 1 in the order of the ids; false: the ids themselves
  /// VOC: the names of the classes by label; empty: all classes in the set, sorted.
  std::vector<std::string> class_names = {};
  bool strict = true;  ///< false: entries without a good image or box are skipped; their number is logged
};

/// Returns the splits, such as train and val, of a folder that holds nothing else, sorted; none for any other folder.
/// Each split is a separate set: `path`/train and so on.
[[nodiscard]] std::vector<std::string> split_folders(const std::string& path);

/// Returns the layout that kAuto finds for this path.
/// Throws: DataError if the path is missing, has no known layout, or is a folder of splits.
[[nodiscard]] SourceKind detect_source(const std::string& path);

/// Opens a source. Throws: DataError naming the file and position; UsageError for conflicting options; IoError.
/// Example: auto source = open_source({.path = "data/bccd", .split = "train"});
[[nodiscard]] std::shared_ptr<ImageSource> open_source(const SourceOptions& options);

}  // namespace lockstep

#pragma GCC visibility pop
