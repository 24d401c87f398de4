// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sources/mask_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "data/sources/files/files.h"
#include "data/sources/files/number_map.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources/inside.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> listed_masks(const fs::path& folder, const MaskFoldersOptions& options) {
  const auto mask_of = [&](const std::string& name) {
    const std::string inside = name_inside(folder, name, options.list, options.allow_outside);
    const fs::path found = data::file_of_name(folder, inside, {".png"});
    return found.empty() ? folder / (inside + ".png") : found;
  };
  const auto exists = [&](const std::string& name) { return FileSystem::system().exists(mask_of(name)); };
  std::vector<fs::path> masks;
  for (const std::string& name : without_flags(read_names(options.list), exists)) masks.push_back(mask_of(name));
  return masks;
}

fs::path picture_of_mask(const fs::path& folder, const fs::path& mask) {
  const fs::path path = data::file_of_name(folder, mask.stem().string(), {".png", ".jpg", ".jpeg"});
  if (!path.empty()) return path;
  throw DataError(fmt::format("mask {} has no image in {}", mask.string(), folder.string()));
}

DataError bad_mask(const fs::path& mask, const std::string& why) {
  return DataError(fmt::format("cannot use mask {}: {}", mask.string(), why));
}

LabelMap classes_of(const data::NumberMap& numbers, bool foreground, const fs::path& mask) {
  LabelMap map{Image{numbers.size, 1, {}}};
  map.image.pixels.reserve(numbers.values.size());
  for (const std::uint16_t value : numbers.values) {
    if (!foreground && value > 255)
      throw bad_mask(mask, fmt::format("class {} is out of range; a map holds 0 .. 255", value));
    map.image.pixels.push_back(foreground ? static_cast<std::uint8_t>(value != 0) : static_cast<std::uint8_t>(value));
  }
  return map;
}

/// The extent of an instance, in whole pixels.
struct Extent {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
  std::int64_t pixels = 0;
};

std::map<std::uint16_t, Extent> extents_of(const data::NumberMap& numbers) {
  std::map<std::uint16_t, Extent> extents;
  for (std::int64_t y = 0; y < numbers.size.height; ++y) {
    for (std::int64_t x = 0; x < numbers.size.width; ++x) {
      const std::uint16_t value = numbers.values[static_cast<std::size_t>(y * numbers.size.width + x)];
      if (value == 0) continue;
      Extent& extent = extents.try_emplace(value, Extent{x, y, x, y, 0}).first->second;
      extent.left = std::min(extent.left, x);
      extent.right = std::max(extent.right, x);
      extent.bottom = y;
      ++extent.pixels;
    }
  }
  return extents;
}

std::vector<Object> instances_of(const data::NumberMap& numbers, const fs::path& mask) {
  const std::map<std::uint16_t, Extent> extents = extents_of(numbers);
  if (extents.size() * numbers.values.size() > data::kMaxMaskBytes) {
    throw bad_mask(mask, fmt::format("{} instances, whose masks take more than 1 GiB", extents.size()));
  }
  std::vector<Object> objects;
  for (const auto& [value, extent] : extents) {
    Object object;
    object.box = {static_cast<float>(extent.left), static_cast<float>(extent.top), static_cast<float>(extent.right + 1),
                  static_cast<float>(extent.bottom + 1)};
    object.area = static_cast<float>(extent.pixels);
    object.mask = Image{numbers.size, 1, {}};
    object.mask->pixels.reserve(numbers.values.size());
    for (const std::uint16_t pixel : numbers.values) object.mask->pixels.push_back(pixel == value ? 1 : 0);
    objects.push_back(std::move(object));
  }
  return objects;
}

/// Returns each line that is not a comment, up to its first colon.
std::vector<std::string> names_in(const fs::path& file) {
  std::vector<std::string> names;
  for (std::string line : read_names(file)) {
    if (line.starts_with("#")) continue;
    line.resize(std::min(line.size(), line.find(':')));
    line.resize(line.find_last_not_of(" \t") + 1);
    if (!line.empty()) names.push_back(line);
  }
  return names;
}

}  // namespace

std::vector<std::string> mask_class_names(const fs::path& root) {
  const fs::path whole = fs::absolute(root / "x").lexically_normal().parent_path();  // removes a trailing slash
  for (const fs::path& folder : {whole, whole.parent_path()}) {
    for (const char* name : {"classes.txt", "labelmap.txt"}) {
      if (FileSystem::system().exists(folder / name)) return names_in(folder / name);
    }
  }
  return {};
}

MaskFolders::MaskFolders(const fs::path& pictures, const fs::path& masks, MaskFoldersOptions options)
    : options_(std::move(options)) {
  data::require_folder(pictures);
  data::require_folder(masks);
  masks_ = options_.list.empty() ? data::files_in(masks, {".png"}) : listed_masks(masks, options_);
  if (masks_.empty()) throw DataError(fmt::format("{} contains no PNG mask", masks.string()));
  for (const fs::path& mask : masks_) pictures_.push_back(picture_of_mask(pictures, mask));
}

AnnotatedImage MaskFolders::get(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(index);
  AnnotatedImage picture = data::picture_of(pictures_[at], index);
  const Result<data::NumberMap> numbers =
      data::decode_numbers(FileSystem::system().read(masks_[at], kMostPictureBytes));
  if (!numbers) throw bad_mask(masks_[at], numbers.error());
  picture.pixels.fit_to(numbers->size);
  if (const ImageSize size = picture.pixels.size(); size != numbers->size) {
    throw bad_mask(masks_[at], fmt::format("{} x {} pixels for an image of {} x {}", numbers->size.width,
                                           numbers->size.height, size.width, size.height));
  }
  picture.maps.push_back(classes_of(*numbers, options_.meaning != MaskMeaning::kClasses, masks_[at]));
  if (options_.meaning == MaskMeaning::kInstances) picture.objects = instances_of(*numbers, masks_[at]);
  return picture;
}

}  // namespace lockstep
