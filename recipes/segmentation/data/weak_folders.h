// SPDX-License-Identifier: Apache-2.0
// Creates weak labels for whole folders: the commands `lockstep generate scribbles`, `pseudo-labels`, `distance-maps`
// and
// `weak-labels`. No torch header.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/set_files.h"
#include "segmentation/synthetic/derive.h"

namespace lockstep::segmentation {

/// Counts of pixels in the maps that a command creates and, if full masks are known, their agreement with the masks.
struct MapCounts {
  std::int64_t maps = 0;
  std::int64_t pixels = 0;
  std::int64_t labelled = 0;               ///< pixels that are not kUnlabelled
  std::array<std::int64_t, 256> both{};    ///< pixels of each class in both map and mask, if both label them
  std::array<std::int64_t, 256> either{};  ///< pixels of each class in map or mask
  [[nodiscard]] double labelled_share() const noexcept;
  /// The mean over the classes that occur, except `ignored`; 0 if there are none.
  [[nodiscard]] double mean_iou() const noexcept;
  void add(const Image& map);
  void compare(const Image& map, const Image& mask);
  void merge(const MapCounts& other);
};

struct ScribbleFolderOptions {
  std::filesystem::path masks;  ///< PNGs of class ids; in a folder `instances`, each number is one object, of class 1
  std::filesystem::path out;    ///< empty or absent
  std::uint64_t seed = 0;
  ScribbleOptions scribbles = {};
  std::int64_t threads = 0;  ///< 0 means one per processor; the output is the same for any number (likewise below)
};
/// Writes a map of scribbles for each mask, under the mask's name. The random numbers of a map depend on the index of
/// its mask among the sorted names.
/// Throws: UsageError if `out` is not empty or an option is out of range; DataError naming a bad mask; IoError. The
///         other commands throw the same errors.
[[nodiscard]] MapCounts write_scribbles(const ScribbleFolderOptions& options,
                                        const common::IndexProgress& progress = nullptr);

struct PseudoFolderOptions {
  PseudoMethod method = PseudoMethod::kWatershed;
  std::filesystem::path images;     ///< watershed
  std::filesystem::path scribbles;  ///< watershed
  std::filesystem::path masks;      ///< coarse
  std::filesystem::path out;
  std::uint64_t seed = 0;  ///< coarse
  CoarseOptions coarse = {};
  std::int64_t threads = 0;
};
[[nodiscard]] MapCounts write_pseudo_labels(const PseudoFolderOptions& options,
                                            const common::IndexProgress& progress = nullptr);

struct DistanceFolderOptions {
  std::filesystem::path labels;       ///< scribbles or pseudo-labels
  bool scribbles = true;              ///< if false, distances to the borders of pseudo-labels
  std::optional<double> lambda = {};  ///< positive; the default depends on the kind
  std::filesystem::path out;
  std::int64_t threads = 0;
};
[[nodiscard]] MapCounts write_distance_maps(const DistanceFolderOptions& options,
                                            const common::IndexProgress& progress = nullptr);

struct WeakFolderOptions {
  std::filesystem::path from;  ///< a set with full masks, in a layout of SetOptions, or a folder of sets by split
  std::string masks = {};      ///< folder of masks in each set; if empty, found by name
  std::filesystem::path out;   ///< empty or absent
  WeakOptions weak = {};
  std::int64_t threads = 0;
};
struct WeakSet {
  std::vector<std::pair<std::string, std::int64_t>> splits;  ///< split names, and the number of images in each
  MapCounts scribbles;
  MapCounts pseudo_labels;  ///< compared with the full masks
};
/// Writes a set in VOC's layout: copies of the images, their masks as class ids, all weak labels, and a list for each
/// split. The splits are the lists of ImageSets, else the folders train, val and test if they hold sets, else just
/// train. Lists of ImageSets that add no images to train and val, or whose images have no masks, are skipped with a
/// note.
/// Throws: anything write_scribbles() throws; UsageError if images of two folders have the same name; DataError if a
/// name has two files, or some images of a list have no mask.
[[nodiscard]] WeakSet write_weak_set(const WeakFolderOptions& options, const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::segmentation
