// SPDX-License-Identifier: Apache-2.0
#include "segmentation/weak_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "segmentation/generate.h"
#include "segmentation/label_file.h"
#include "segmentation/planes.h"
#include "segmentation/set_folders.h"

namespace lockstep::segmentation {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> maps_of_folder(const fs::path& folder) {
  std::error_code fault;
  if (!fs::is_directory(folder, fault)) throw DataError(fmt::format("folder {} is missing", folder.string()));
  std::vector<fs::path> files;
  for (const std::string& name : FileSystem::system().list(folder)) {
    if (fs::path(name).extension() == ".png") files.push_back(folder / name);
  }
  if (files.empty()) throw DataError(fmt::format("folder {} holds no PNG file", folder.string()));
  return files;
}

fs::path picture_beside(const fs::path& folder, const std::string& stem) {
  for (const char* extension : {".jpg", ".png", ".jpeg", ".JPG", ".PNG", ".JPEG"}) {
    fs::path file = folder / (stem + extension);
    if (FileSystem::system().exists(file)) return file;
  }
  throw DataError(fmt::format("scribbles {}.png have no picture in {}", stem, folder.string()));
}

Numbers numbers_in(const fs::path& folder) { return holds_instances(folder) ? Numbers::kInstances : Numbers::kClasses; }

/// A mask as numbers; where they are classes, each of them is one.
NumberMap checked_mask(const fs::path& file, Numbers meaning) {
  if (meaning == Numbers::kClasses) return numbers_of(read_map(file, MapMeaning::kClasses));
  return read_numbers(file);
}

/// Maps of one folder become maps of another. `make`: (file, index) -> Image.
template <class Make>
MapCounts write_all(const std::vector<fs::path>& files, const fs::path& out, std::int64_t threads,
                    const WriteProgress& progress, const Make& make) {
  make_empty_folder(out);
  MapCounts counts;
  std::mutex mutex;
  const auto work = [&](std::int64_t index) {
    const fs::path& file = files[static_cast<std::size_t>(index)];
    const Image map = make(file, index);
    write_map(map, out / file.filename());
    MapCounts own;
    own.add(map);
    const std::lock_guard lock(mutex);
    counts.merge(own);
  };
  run_indices(std::ssize(files), threads, work, progress);
  return counts;
}

}  // namespace

double MapCounts::labelled_share() const noexcept {
  return pixels == 0 ? 0.0 : static_cast<double>(labelled) / static_cast<double>(pixels);
}

double MapCounts::mean_iou() const noexcept {
  double sum = 0;
  int classes = 0;
  for (std::size_t i = 0; i < kUnlabelled; ++i) {
    if (either[i] == 0) continue;
    sum += static_cast<double>(both[i]) / static_cast<double>(either[i]);
    ++classes;
  }
  return classes == 0 ? 0.0 : sum / classes;
}

void MapCounts::add(const Image& map) {
  ++maps;
  pixels += std::ssize(map.pixels);
  labelled += std::ssize(map.pixels) - std::ranges::count(map.pixels, kUnlabelled);
}

void MapCounts::compare(const Image& map, const Image& mask) {
  for (std::size_t i = 0; i < map.pixels.size(); ++i) {
    const std::uint8_t said = map.pixels[i];
    const std::uint8_t true_class = mask.pixels[i];
    if (said == kUnlabelled || true_class == kUnlabelled) continue;
    ++either[said];
    if (said == true_class) {
      ++both[said];
    } else {
      ++either[true_class];
    }
  }
}

void MapCounts::merge(const MapCounts& other) {
  maps += other.maps;
  pixels += other.pixels;
  labelled += other.labelled;
  for (std::size_t i = 0; i < both.size(); ++i) {
    both[i] += other.both[i];
    either[i] += other.either[i];
  }
}

MapCounts write_scribbles(const ScribbleFolderOptions& options, const WriteProgress& progress) {
  const Numbers meaning = numbers_in(options.masks);
  return write_all(maps_of_folder(options.masks), options.out, options.threads, progress,
                   [&](const fs::path& file, std::int64_t index) {
                     SampleRandom random = scribble_random(options.seed, index);
                     return derive_scribbles(checked_mask(file, meaning), meaning, options.scribbles, random);
                   });
}

MapCounts write_pseudo_labels(const PseudoFolderOptions& options, const WriteProgress& progress) {
  if (options.method == PseudoMethod::kCoarse) {
    const Numbers meaning = numbers_in(options.masks);
    return write_all(maps_of_folder(options.masks), options.out, options.threads, progress,
                     [&](const fs::path& file, std::int64_t index) {
                       SampleRandom random = coarse_random(options.seed, index);
                       return coarse_labels(classes_of(checked_mask(file, meaning), meaning), options.coarse, random);
                     });
  }
  return write_all(maps_of_folder(options.scribbles), options.out, options.threads, progress,
                   [&](const fs::path& file, std::int64_t) {
                     const fs::path picture = picture_beside(options.images, file.stem().string());
                     const Image pixels = read_image(picture, ColorMode::kRgb);
                     const Image scribbles = read_map(file, MapMeaning::kClasses);
                     if (pixels.size != scribbles.size) {
                       throw DataError(fmt::format("scribbles {} are {} x {} pixels, and picture {} is {} x {}",
                                                   file.string(), scribbles.size.width, scribbles.size.height,
                                                   picture.string(), pixels.size.width, pixels.size.height));
                     }
                     return watershed_labels(pixels, scribbles);
                   });
}

MapCounts write_distance_maps(const DistanceFolderOptions& options, const WriteProgress& progress) {
  return write_all(maps_of_folder(options.labels), options.out, options.threads, progress,
                   [&](const fs::path& file, std::int64_t) {
                     const Image labels = read_map(file, MapMeaning::kClasses);
                     if (options.scribbles) {
                       return scribble_distance_map(labels, options.lambda == 0 ? kScribbleLambda : options.lambda);
                     }
                     return class_distance_map(labels, options.lambda == 0 ? kContourLambda : options.lambda);
                   });
}

namespace {

/// A picture of a set with full masks, and where it belongs.
struct MaskedFile {
  fs::path picture;
  fs::path mask;
  Numbers meaning = Numbers::kClasses;
};

/// The pictures of all splits, one after another.
class FullSet {
 public:
  explicit FullSet(const WeakFolderOptions& options) {
    for (const auto& [split, root] : splits_of(options.from)) {
      const FileList list = list_files(root, {.split = split, .roles = {Role::kMasks}, .overrides = {options.masks}});
      const Numbers meaning = numbers_in(list.folders.front());
      for (const SampleFiles& sample : list.samples) {
        add(split, {sample.picture, sample.maps.front(), meaning});
      }
    }
  }

  [[nodiscard]] const std::vector<MaskedFile>& files() const noexcept { return files_; }
  [[nodiscard]] const std::map<std::string, std::vector<std::string>>& names() const noexcept { return names_; }

 private:
  /// Names of the splits, and where each lies.
  static std::vector<std::pair<std::string, fs::path>> splits_of(const fs::path& from) {
    std::set<std::string> lists;
    for (const char* kind : {"Segmentation", "SegmentationAug"}) {
      for (const std::string& name : FileSystem::system().list(from / "ImageSets" / kind)) {
        if (fs::path(name).extension() == ".txt") lists.insert(fs::path(name).stem().string());
      }
    }
    // Those of the other lists are in these two as well.
    if (lists.contains("train") && lists.contains("val")) lists = {"train", "val"};
    std::vector<std::pair<std::string, fs::path>> splits;
    for (const std::string& list : lists) splits.emplace_back(list, from);
    if (!splits.empty()) return splits;
    std::error_code fault;
    for (const char* name : {"train", "val", "test"}) {
      const bool there =
          fs::is_directory(from / name / "images", fault) || fs::is_directory(from / name / "JPEGImages", fault);
      if (there) splits.emplace_back(name, from / name);
    }
    if (splits.empty()) splits.emplace_back("train", from);
    return splits;
  }

  void add(const std::string& split, MaskedFile file) {
    const std::string name = file.picture.stem().string();
    if (!seen_.insert(name).second) {
      throw UsageError(fmt::format("picture {} stands in two splits", name), "a set has one picture of each name");
    }
    names_[split].push_back(name);
    files_.push_back(std::move(file));
  }

  std::vector<MaskedFile> files_;
  std::map<std::string, std::vector<std::string>> names_;
  std::set<std::string> seen_;
};

/// Maps of one picture, written; and what they are worth.
void write_one(const WeakFolderOptions& options, const MaskedFile& file, std::int64_t index, WeakSet& counts) {
  const VocFolders folders{options.out};
  const Image picture = read_image(file.picture, ColorMode::kRgb);
  const NumberMap mask = checked_mask(file.mask, file.meaning);
  if (picture.size != mask.size) {
    throw DataError(fmt::format("mask {} is {} x {} pixels, and picture {} is {} x {}", file.mask.string(),
                                mask.size.width, mask.size.height, file.picture.string(), picture.size.width,
                                picture.size.height));
  }
  const WeakLabels labels = derive_weak_labels(picture, mask, file.meaning, options.weak, index);
  const Image classes = classes_of(mask, file.meaning);
  const std::string name = file.picture.stem().string();
  std::error_code fault;
  fs::copy_file(file.picture, folders.pictures() / file.picture.filename(), fault);
  if (fault) {
    throw IoError(
        fmt::format("cannot copy {} to {}: {}", file.picture.string(), folders.pictures().string(), fault.message()));
  }
  write_map(classes, folders.masks() / (name + ".png"));
  folders.write(labels, name);
  counts.scribbles.add(labels.scribbles);
  counts.pseudo_labels.add(labels.pseudo_labels);
  counts.pseudo_labels.compare(labels.pseudo_labels, classes);
}

}  // namespace

WeakSet write_weak_set(const WeakFolderOptions& options, const WriteProgress& progress) {
  const FullSet full(options);
  VocFolders{options.out}.make();
  WeakSet set;
  std::mutex mutex;
  const auto work = [&](std::int64_t index) {
    WeakSet own;
    write_one(options, full.files()[static_cast<std::size_t>(index)], index, own);
    const std::lock_guard lock(mutex);
    set.scribbles.merge(own.scribbles);
    set.pseudo_labels.merge(own.pseudo_labels);
  };
  run_indices(std::ssize(full.files()), options.threads, work, progress);
  for (const auto& [split, names] : full.names()) {
    std::string text;
    for (const std::string& name : names) text += name + "\n";
    write_file_atomically(FileSystem::system(), VocFolders{options.out}.list(split), text);
    set.splits.emplace_back(split, std::ssize(names));
  }
  return set;
}

}  // namespace lockstep::segmentation
