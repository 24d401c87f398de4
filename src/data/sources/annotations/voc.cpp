// SPDX-License-Identifier: Apache-2.0
// Pascal VOC as a source.
#include "lockstep/data/sources/voc.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "data/sources/annotations/voc_folders.h"
#include "data/sources/annotations/voc_parse.h"
#include "data/sources/files/files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sources/inside.h"
#include "lockstep/data/sources/text_files.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace data {

struct VocEntry {
  fs::path picture;
  ImageSize size;
  std::vector<Object> objects;
};

struct VocSet {
  std::vector<VocEntry> entries;
  std::vector<std::string> classes;
  std::int64_t empty_boxes = 0;
  std::int64_t left_out = 0;
  std::string first_left_out;
};

namespace {

VocPicture read_voc(const fs::path& path) {
  Result<VocPicture> picture = parse_voc(FileSystem::system().read(path));
  if (!picture) throw DataError(fmt::format("cannot read {}: {}", path.string(), picture.error()));
  return std::move(picture).value();
}

/// Returns the names of a set without lists: one for every XML file. Images without an XML file are skipped.
std::vector<std::string> names_of_files(const VocFolders& folders) {
  std::vector<std::string> names;
  for (const fs::path& path : files_in(folders.annotations, {".xml"})) names.push_back(path.stem().string());
  return names;
}

DataError no_lists(const fs::path& root, const std::string& split) {
  return DataError(
      fmt::format("{} contains no split lists (ImageSets/Main), but the split '{}' was requested", root.string(),
                  split),
      "omit the split: all XML files are used, and data.val_fraction=0.1 holds out a part of them as the test set");
}

std::vector<std::string> names_of_split(const fs::path& root, const VocFolders& folders, const VocOptions& options) {
  if (folders.lists.empty()) {
    if (options.split != VocOptions().split) throw no_lists(root, options.split);
    return names_of_files(folders);
  }
  const fs::path path = folders.lists / (options.split + ".txt");
  if (!FileSystem::system().exists(path)) {
    std::vector<std::string> splits;
    for (const std::string& name : FileSystem::system().list(path.parent_path()))
      splits.push_back(fs::path(name).stem().string());
    throw DataError(fmt::format("{} does not exist", path.string()),
                    splits.empty() ? "" : fmt::format("available splits: {}", text::join(splits)));
  }
  const auto inside = [&](const std::string& name) {
    return name_inside(folders.pictures, name, path, options.allow_outside);
  };
  const auto exists = [&](const std::string& name) {
    return !file_of_name(folders.annotations, inside(name), {".xml"}).empty();
  };
  std::vector<std::string> names = without_flags(read_names(path), exists);
  if (names.empty()) throw DataError(fmt::format("{} lists no images", path.string()));
  for (std::string& name : names) name = inside(name);
  return names;
}

const std::vector<std::string> kVocPictures = {".jpg", ".jpeg", ".png"};

/// Returns the image for the file `xml`, found by that file's own name, otherwise by the name given in it.
fs::path picture_path(const fs::path& folder, const std::string& name, const fs::path& xml, const std::string& in_xml) {
  if (fs::path path = file_of_name(folder, name, kVocPictures); !path.empty()) return path;
  const bool is_picture = has_extension(in_xml, kVocPictures);
  if (is_picture && FileSystem::system().exists(folder / in_xml)) return folder / in_xml;
  const std::string missing = in_xml.empty() ? name + " (.jpg, .jpeg or .png)" : in_xml;
  throw DataError(fmt::format("{} belongs to no image: {} does not exist", xml.string(), (folder / missing).string()),
                  "an image is a PNG or JPEG file with the name of its XML file, or with the name in that file");
}

/// Returns the names for a message: "cat, dog, ... and 3 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> some(names.begin(),
                                names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  if (some.size() < names.size()) some.push_back(fmt::format("... and {} more", names.size() - some.size()));
  return text::join(some);
}

/// Reads the set. Labels come from the classes of all XML files, so every split has the same labels.
class VocReader {
 public:
  VocReader(fs::path root, VocOptions options) : root_(std::move(root)), options_(std::move(options)) {}

  VocSet read() {
    require_folder(root_);
    const auto found = find_voc(root_);
    if (!found) {
      throw DataError(fmt::format("{} contains no XML files, directly or in a folder Annotations", root_.string()));
    }
    folders_ = *found;
    const std::vector<std::string> names = names_of_split(root_, folders_, options_);
    set_.classes = options_.class_names.empty() ? all_classes() : options_.class_names;
    for (std::size_t i = 0; i < set_.classes.size(); ++i) labels_[set_.classes[i]] = static_cast<std::int64_t>(i);
    for (const std::string& name : names) {
      try {
        add(name);
      } catch (const DataError& fault) {
        if (options_.strict) throw;
        if (set_.left_out++ == 0) set_.first_left_out = fault.message();
      }
    }
    if (set_.entries.empty()) {
      throw DataError(fmt::format("no usable image in split '{}' of {}; the first: {}", options_.split, root_.string(),
                                  set_.first_left_out));
    }
    if (set_.left_out > 0) {
      log::note("{}: {} of {} images skipped; the first: {}", root_.string(), set_.left_out, names.size(),
                set_.first_left_out);
    }
    if (options_.drop_empty_boxes && set_.empty_boxes > 0) {
      log::note("{}: {} without area skipped", root_.string(), text::counted(set_.empty_boxes, "box", "boxes"));
    }
    return std::move(set_);
  }

 private:
  std::vector<std::string> all_classes() {
    std::map<std::string, int> names;
    for (const fs::path& path : files_in(folders_.annotations, {".xml"})) {
      try {
        for (const VocObject& object : read_voc(path).objects) names[object.name] = 0;
      } catch (const DataError&) {
        if (options_.strict) throw;
      }
    }
    std::vector<std::string> sorted;
    for (const auto& [name, unused] : names) sorted.push_back(name);
    note_numbered_classes(root_.string(), sorted);
    return sorted;
  }

  void add(const std::string& name) {
    fs::path path = file_of_name(folders_.annotations, name, {".xml"});
    if (path.empty()) path = folders_.annotations / (name + ".xml");  // the missing file, for the error
    const VocPicture picture = read_voc(path);
    VocEntry entry{picture_path(folders_.pictures, name, path, picture.file_name), picture.size, {}};
    std::int64_t empty = 0;
    for (const VocObject& from : picture.objects) {
      const auto label = labels_.find(from.name);
      if (label == labels_.end()) {
        throw DataError(fmt::format("{} contains an object '{}', which is not one of the {} classes: {}", path.string(),
                                    from.name, labels_.size(), some_of(set_.classes)));
      }
      const bool no_area = from.box.width() <= 0 || from.box.height() <= 0;
      empty += no_area ? 1 : 0;
      if (no_area && options_.drop_empty_boxes) continue;
      Object object;
      object.box = from.box;
      object.label = label->second;
      object.area = from.box.area();
      object.crowd = from.difficult && options_.difficult_is_crowd;
      entry.objects.push_back(std::move(object));
    }
    set_.empty_boxes += empty;
    set_.entries.push_back(std::move(entry));
  }

  fs::path root_;
  VocFolders folders_;
  VocOptions options_;
  VocSet set_;
  std::map<std::string, std::int64_t> labels_;
};

}  // namespace
}  // namespace data

VocImages::VocImages(const fs::path& root, const VocOptions& options)
    : set_(std::make_shared<const data::VocSet>(data::VocReader(root, options).read())) {}

std::int64_t VocImages::size() const { return std::ssize(set_->entries); }
const std::vector<std::string>& VocImages::class_names() const { return set_->classes; }
std::int64_t VocImages::empty_boxes() const noexcept { return set_->empty_boxes; }
std::int64_t VocImages::left_out() const noexcept { return set_->left_out; }

std::string VocImages::describe(std::int64_t index) const {
  return set_->entries[static_cast<std::size_t>(index)].picture.string();
}
const std::vector<Object>& VocImages::objects(std::int64_t index) const {
  return set_->entries[static_cast<std::size_t>(index)].objects;
}
ImageSize VocImages::stated_size(std::int64_t index) const {
  return set_->entries[static_cast<std::size_t>(index)].size;
}

AnnotatedImage VocImages::get(std::int64_t index) const {
  const data::VocEntry& entry = set_->entries[static_cast<std::size_t>(index)];
  AnnotatedImage picture = data::picture_of(entry.picture, index);
  picture.pixels.fit_to(entry.size);
  picture.objects = entry.objects;
  return picture;
}

}  // namespace lockstep
