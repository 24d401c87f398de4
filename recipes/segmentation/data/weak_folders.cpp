// SPDX-License-Identifier: Apache-2.0
#include "segmentation/data/weak_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/resources.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sources/image_files.h"
#include "segmentation/data/label_file.h"
#include "segmentation/data/set_folders.h"
#include "segmentation/synthetic/generate.h"
#include "segmentation/synthetic/planes.h"

namespace lockstep::segmentation {
namespace {

namespace fs = std::filesystem;

/// Throws: DataError if the folder does not exist or is empty, or a name has two files.
NamedFiles files_of_folder(const fs::path& folder, FileKind kind) {
  std::error_code fault;
  if (!fs::exists(folder, fault)) throw DataError(fmt::format("folder {} does not exist", folder.string()));
  if (!fs::is_directory(folder, fault)) throw DataError(fmt::format("{} is not a folder", folder.string()));
  NamedFiles files = named_files(folder, kind);
  if (files.files.empty()) {
    throw DataError(
        fmt::format("folder {} holds no {} file", folder.string(), kind == FileKind::kMaps ? "PNG" : "PNG or JPEG"));
  }
  if (!files.twins.empty()) {
    const auto& [name, twin] = *files.twins.begin();
    throw DataError(fmt::format("folder {} has two files with the same name: {} and {}", folder.string(),
                                files.files.at(name), twin),
                    "rename or remove one of the two");
  }
  return files;
}

std::vector<fs::path> maps_of_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& [name, file] : files_of_folder(folder, FileKind::kMaps).files) paths.push_back(folder / file);
  return paths;
}

fs::path picture_beside(const NamedFiles& pictures, const fs::path& scribbles) {
  const auto at = pictures.files.find(picture_name(scribbles));
  if (at != pictures.files.end()) return pictures.folder / at->second;
  throw DataError(fmt::format("scribbles {} have no image in {}", scribbles.string(), pictures.folder.string()));
}

Numbers numbers_in(const fs::path& folder) { return holds_instances(folder) ? Numbers::kInstances : Numbers::kClasses; }

/// A mask as numbers. A class mask must be a valid map of classes.
NumberMap checked_mask(const fs::path& file, Numbers meaning) {
  if (meaning == Numbers::kClasses) return numbers_of(read_map(file, MapMeaning::kClasses));
  return read_numbers(file);
}

/// An image, with or without its EXIF orientation, whichever matches the size of its map.
Image picture_of_size(const fs::path& file, ImageSize size) {
  AnnotatedImage picture = ImageFiles::of({file}).get(0);
  picture.pixels.fit_to(size);
  return std::move(picture.pixels.decoded());
}

/// Converts the maps in one folder into maps in another. `make`: (file, index) -> Image.
template <class Make>
MapCounts write_all(const std::vector<fs::path>& files, const fs::path& out, std::int64_t threads,
                    const common::IndexProgress& progress, const Make& make) {
  common::make_empty_folder(out);
  MapCounts counts;
  std::mutex mutex;
  const auto work = [&](std::int64_t index) {
    const fs::path& file = files[static_cast<std::size_t>(index)];
    const Image map = make(file, index);
    common::write_set_picture(map, out / (picture_name(file) + ".png"));
    MapCounts own;
    own.add(map);
    const std::lock_guard lock(mutex);
    counts.merge(own);
  };
  common::run_indices(std::ssize(files), threads, work, progress);
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

MapCounts write_scribbles(const ScribbleFolderOptions& options, const common::IndexProgress& progress) {
  const Numbers meaning = numbers_in(options.masks);
  return write_all(maps_of_folder(options.masks), options.out, options.threads, progress,
                   [&](const fs::path& file, std::int64_t index) {
                     SampleRandom random = scribble_random(options.seed, index);
                     return derive_scribbles(checked_mask(file, meaning), meaning, options.scribbles, random);
                   });
}

MapCounts write_pseudo_labels(const PseudoFolderOptions& options, const common::IndexProgress& progress) {
  if (options.method == PseudoMethod::kCoarse) {
    const Numbers meaning = numbers_in(options.masks);
    return write_all(maps_of_folder(options.masks), options.out, options.threads, progress,
                     [&](const fs::path& file, std::int64_t index) {
                       SampleRandom random = coarse_random(options.seed, index);
                       return coarse_labels(classes_of(checked_mask(file, meaning), meaning), options.coarse, random);
                     });
  }
  const NamedFiles pictures = files_of_folder(options.images, FileKind::kPictures);
  return write_all(maps_of_folder(options.scribbles), options.out, options.threads, progress,
                   [&](const fs::path& file, std::int64_t) {
                     const fs::path picture = picture_beside(pictures, file);
                     const Image scribbles = read_map(file, MapMeaning::kClasses);
                     const Image pixels = picture_of_size(picture, scribbles.size);
                     if (pixels.size != scribbles.size) {
                       throw DataError(fmt::format("scribbles {} are {} x {} pixels, but image {} is {} x {}",
                                                   file.string(), scribbles.size.width, scribbles.size.height,
                                                   picture.string(), pixels.size.width, pixels.size.height));
                     }
                     return watershed_labels(pixels, scribbles);
                   });
}

MapCounts write_distance_maps(const DistanceFolderOptions& options, const common::IndexProgress& progress) {
  const double lambda = options.lambda.value_or(options.scribbles ? kScribbleLambda : kContourLambda);
  if (!(lambda > 0)) throw UsageError(fmt::format("distance maps: lambda is {}, must be above 0", lambda));
  return write_all(
      maps_of_folder(options.labels), options.out, options.threads, progress, [&](const fs::path& file, std::int64_t) {
        const Image labels = read_map(file, MapMeaning::kClasses);
        return options.scribbles ? scribble_distance_map(labels, lambda) : class_distance_map(labels, lambda);
      });
}

namespace {

/// An image of a set, and its full mask.
struct MaskedFile {
  fs::path picture;
  fs::path mask;
  Numbers meaning = Numbers::kClasses;
};

/// The images of all splits, one split after another.
class FullSet {
 public:
  explicit FullSet(const WeakFolderOptions& options) : options_(options) {
    if (add_lists()) return;
    std::error_code fault;
    for (const char* name : {"train", "val", "test"}) {
      const fs::path root = options.from / name;
      const bool there = fs::is_directory(root / "images", fault) || fs::is_directory(root / "JPEGImages", fault);
      if (there) add_split(name, root);
    }
    if (files_.empty()) add_split("train", options.from);
  }

  [[nodiscard]] const std::vector<MaskedFile>& files() const noexcept { return files_; }
  [[nodiscard]] const std::map<std::string, std::vector<std::string>>& names() const noexcept { return names_; }

 private:
  /// The names of ImageSets' lists, train and val first.
  [[nodiscard]] std::vector<std::string> lists_of_set() const {
    std::set<std::string> found;
    for (const char* kind : {"Segmentation", "SegmentationAug"}) {
      for (const std::string& name : FileSystem::system().list(options_.from / "ImageSets" / kind)) {
        if (fs::path(name).extension() == ".txt" && !name.starts_with('.'))
          found.insert(fs::path(name).stem().string());
      }
    }
    std::vector<std::string> lists(found.begin(), found.end());
    std::ranges::stable_partition(lists, [](const std::string& list) { return list == "train" || list == "val"; });
    return lists;
  }

  /// Adds the images of ImageSets' lists. Returns false if there are none.
  bool add_lists() {
    const std::vector<std::string> lists = lists_of_set();
    if (lists.empty()) return false;
    const NamedFiles pictures = named_files(folder_of(options_.from, Role::kPictures, ""), FileKind::kPictures);
    const NamedFiles masks = named_files(folder_of(options_.from, Role::kMasks, options_.masks), FileKind::kMaps);
    std::vector<std::string> covered;
    std::vector<std::string> without_masks;
    const bool both = std::ranges::count(lists, "train") + std::ranges::count(lists, "val") == 2;
    std::set<std::string> of_both;
    for (const std::string& list : lists) {
      const std::vector<std::string> names = names_of(options_.from, list, pictures).names;
      const auto all = [&](const auto& has) { return std::ranges::all_of(names, has); };
      if (list == "train" || list == "val") {
        of_both.insert(names.begin(), names.end());
      } else if (both && all([&](const std::string& name) { return of_both.contains(name); })) {
        covered.push_back(list);
        continue;
      } else if (all([&](const std::string& name) { return !masks.files.contains(name); })) {
        without_masks.push_back(list);
        continue;
      }
      add_split(list, options_.from);
    }
    if (!covered.empty()) {
      log::note("{}: skipped lists whose images are all in train and val: {}", options_.from.string(),
                text::join(covered));
    }
    if (!without_masks.empty()) {
      log::note("{}: skipped lists without any mask: {}", options_.from.string(), text::join(without_masks));
    }
    return true;
  }

  void add_split(const std::string& split, const fs::path& root) {
    const FileList list = list_files(root, {.split = split, .roles = {Role::kMasks}, .overrides = {options_.masks}});
    const Numbers meaning = numbers_in(list.folders.front());
    for (const SampleFiles& sample : list.samples) add(split, {sample.picture, sample.maps.front(), meaning});
  }

  /// Adds an image to a split. It may be in several lists, but is written once.
  void add(const std::string& split, MaskedFile file) {
    const std::string name = picture_name(file.picture);
    names_[split].push_back(name);
    const auto [at, is_new] = seen_.try_emplace(name, file.picture);
    if (is_new) {
      files_.push_back(std::move(file));
    } else if (at->second != file.picture) {
      throw UsageError(fmt::format("two splits have an image named {}", name),
                       "image names must be unique within a set");
    }
  }

  const WeakFolderOptions& options_;
  std::vector<MaskedFile> files_;
  std::map<std::string, std::vector<std::string>> names_;
  std::map<std::string, fs::path> seen_;
};

/// Writes the maps of one image. Counts the maps' labels, and their agreement with the mask.
void write_one(const WeakFolderOptions& options, const MaskedFile& file, std::int64_t index, WeakSet& counts) {
  const VocFolders folders{options.out};
  const NumberMap mask = checked_mask(file.mask, file.meaning);
  const Image picture = picture_of_size(file.picture, mask.size);
  if (picture.size != mask.size) {
    throw DataError(fmt::format("mask {} is {} x {} pixels, but image {} is {} x {}", file.mask.string(),
                                mask.size.width, mask.size.height, file.picture.string(), picture.size.width,
                                picture.size.height));
  }
  const WeakLabels labels = derive_weak_labels(picture, mask, file.meaning, options.weak, index);
  const Image classes = classes_of(mask, file.meaning);
  const std::string name = picture_name(file.picture);
  std::error_code fault;
  fs::copy_file(file.picture, folders.pictures() / file.picture.filename(), fault);
  if (fault) {
    throw IoError(fmt::format("cannot copy {} to {}: {}", file.picture.string(), folders.pictures().string(),
                              error_words(fault.value())),
                  write_remedy(fault.value()));
  }
  common::write_set_picture(classes, folders.masks() / (name + ".png"));
  folders.write(labels, name);
  counts.scribbles.add(labels.scribbles);
  counts.pseudo_labels.add(labels.pseudo_labels);
  counts.pseudo_labels.compare(labels.pseudo_labels, classes);
}

}  // namespace

WeakSet write_weak_set(const WeakFolderOptions& options, const common::IndexProgress& progress) {
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
  common::run_indices(std::ssize(full.files()), options.threads, work, progress);
  for (const auto& [split, names] : full.names()) {
    std::string text;
    for (const std::string& name : names) text += name + "\n";
    write_file_atomically(FileSystem::system(), VocFolders{options.out}.list(split), text);
    set.splits.emplace_back(split, std::ssize(names));
  }
  return set;
}

}  // namespace lockstep::segmentation
