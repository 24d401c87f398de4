// SPDX-License-Identifier: Apache-2.0
// Weak labels for whole folders: what the commands `lockstep generate scribbles`, `pseudo-labels`, `distance-maps` and
// `weak-labels` do. No torch header.
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

/// Pixels of a command's maps, and what agrees with full masks where those are known. For the line at its end.
struct MapCounts {
  std::int64_t maps = 0;
  std::int64_t pixels = 0;
  std::int64_t labelled = 0;               ///< not kUnlabelled
  std::array<std::int64_t, 256> both{};    ///< by class: map and mask say it; of pixels that both label
  std::array<std::int64_t, 256> either{};  ///< by class: map or mask says it
  [[nodiscard]] double labelled_share() const noexcept;
  /// The mean over the classes that are there, without `ignored`. 0 where there are none.
  [[nodiscard]] double mean_iou() const noexcept;
  void add(const Image& map);
  void compare(const Image& map, const Image& mask);
  void merge(const MapCounts& other);
};

struct ScribbleFolderOptions {
  std::filesystem::path masks;  ///< PNGs of class ids; in a folder named `instances` each number is a thing of class 1
  std::filesystem::path out;    ///< empty or absent
  std::uint64_t seed = 0;
  ScribbleOptions scribbles = {};
  std::int64_t threads = 0;  ///< 0: one per processor. Changes no byte; so below
};
/// A map of scribbles for each mask, with its name. The chance of a file is that of its place among the sorted names.
/// Throws: UsageError where `out` is not empty or an option is out of range; DataError naming a bad mask; IoError. So
/// the others.
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
  bool scribbles = true;              ///< false: distances to the borders of pseudo-labels
  std::optional<double> lambda = {};  ///< positive; the default is that of its kind
  std::filesystem::path out;
  std::int64_t threads = 0;
};
[[nodiscard]] MapCounts write_distance_maps(const DistanceFolderOptions& options,
                                            const common::IndexProgress& progress = nullptr);

struct WeakFolderOptions {
  std::filesystem::path from;  ///< a set with full masks, in a layout of SetOptions, or a folder of such splits
  std::string masks = {};      ///< another folder of masks in each
  std::filesystem::path out;   ///< empty or absent
  WeakOptions weak = {};
  std::int64_t threads = 0;
};
struct WeakSet {
  std::vector<std::pair<std::string, std::int64_t>> splits;  ///< names and how many pictures
  MapCounts scribbles;
  MapCounts pseudo_labels;  ///< compared with the full masks
};
/// Writes a set in the layout of VOC: copies of the pictures, their masks as class ids, all weak labels, and a list for
/// each split: those of ImageSets; of the folders train, val and test where they hold sets; else one named train. Of
/// ImageSets, lists are left out with a note that have nothing beyond train and val, or no picture with a mask.
/// Throws: also UsageError where pictures of two folders have one name; DataError where a name has two files, or some
/// pictures of a list have no mask.
[[nodiscard]] WeakSet write_weak_set(const WeakFolderOptions& options, const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::segmentation
