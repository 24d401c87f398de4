// SPDX-License-Identifier: Apache-2.0
// Generates synthetic sets in VOC's layout: scenes with masks, weak labels and lists. Independent of models and
// training. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/set_files.h"
#include "segmentation/synthetic/derive.h"

namespace lockstep::segmentation {

inline constexpr common::SideRange kSides{32, 4096};  ///< pixels

/// The folders of a set in VOC's layout, as SetOptions finds them.
struct VocFolders {
  std::filesystem::path root;

  [[nodiscard]] std::filesystem::path pictures() const { return root / "JPEGImages"; }
  [[nodiscard]] std::filesystem::path masks() const { return root / "SegmentationClassAug"; }
  [[nodiscard]] std::filesystem::path scribbles() const { return root / "pascal_2012_scribble"; }
  [[nodiscard]] std::filesystem::path pseudo_labels() const { return root / "bmp_pseudolabel"; }
  [[nodiscard]] std::filesystem::path scribble_distances() const { return root / "distance_map"; }
  [[nodiscard]] std::filesystem::path class_distances() const { return root / "distance_pseudo"; }
  [[nodiscard]] std::filesystem::path list(const std::string& split) const {
    return root / "ImageSets" / "SegmentationAug" / (split + ".txt");
  }

  /// Throws: UsageError if `root` is not empty.
  void make() const;
  void write(const WeakLabels& labels, const std::string& name) const;
};

struct GenerateOptions {
  std::filesystem::path out;  ///< created if missing; must be empty
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  common::SideRange size = {128, 128};  ///< width and height are drawn separately
  double val_share = 0.2;    ///< fraction of the images (the last ones) in the list val; train has at least 1
  WeakOptions weak = {};     ///< weak labels; their seed is `seed`
  std::int64_t threads = 0;  ///< 0 means one per processor; the output is the same for any number
};

struct GeneratedSet {
  std::int64_t train = 0;
  std::int64_t val = 0;
};

/// Writes images JPEGImages/<index>.png with masks and all weak labels, then the lists. The same options give the same
/// bytes, on any number of threads; a longer set begins with the images of a shorter one.
/// Throws: UsageError if an option is out of range or `out` is not empty; IoError if a file cannot be written.
[[nodiscard]] GeneratedSet generate_set(const GenerateOptions& options,
                                        const common::IndexProgress& progress = nullptr);

}  // namespace lockstep::segmentation
