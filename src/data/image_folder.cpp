// SPDX-License-Identifier: Apache-2.0
// Lists and loads a folder of images.
#include "lockstep/data/image_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

std::string words(ImageSize size) { return fmt::format("{} x {}", size.width, size.height); }

void check_folder(const fs::path& folder) {
  std::error_code fault;
  const fs::file_status status = fs::status(folder, fault);
  if (!fs::exists(status)) throw DataError(fmt::format("folder {} does not exist", folder.string()));
  if (!fs::is_directory(status)) throw DataError(fmt::format("{} is not a folder", folder.string()));
}

}  // namespace

FileList list_files(const fs::path& folder, const std::vector<std::string>& extensions) {
  check_folder(folder);
  FileList list;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault)) {
    const std::string extension = lower(entry->path().extension().string());
    const bool hidden = entry->path().filename().string().starts_with('.');
    std::error_code broken_link;
    if (!hidden && std::ranges::find(extensions, extension) != extensions.end() &&
        entry->is_regular_file(broken_link)) {
      list.paths.push_back(entry->path());
    } else {
      ++list.ignored;
    }
  }
  if (fault) throw IoError(fmt::format("cannot list folder {}: {}", folder.string(), fault.message()));
  if (list.paths.empty()) {
    throw DataError(fmt::format("folder {} contains no {} file ({} other entries)", folder.string(),
                                text::join(extensions, " or "), list.ignored));
  }
  if (list.ignored > 0) {
    log::note("{}: {} of {} entries ignored: they are hidden or not {} files", folder.string(), list.ignored,
              list.ignored + static_cast<std::int64_t>(list.paths.size()), text::join(extensions, " or "));
  }
  std::ranges::sort(list.paths);
  return list;
}

void read_image_into(const fs::path& file, const ImageFolderOptions& options, float* out) {
  Image image = read_image(file, options.color);
  if (image.size != options.size) {
    if (!options.resize) {
      throw DataError(
          fmt::format("image {} is {} pixels, expected {}", file.string(), words(image.size), words(options.size)),
          "set the width and height of the images, or resize them");
    }
    image = resize_image(image, options.size);
  }
  to_float_chw(image, out);
}

ImageFolder::ImageFolder(const fs::path& folder, ImageFolderOptions options)
    : ImageFolder(list_files(folder).paths, std::move(options)) {}

ImageFolder::ImageFolder(std::vector<fs::path> files, ImageFolderOptions options)
    : files_(std::move(files)), options_(std::move(options)) {
  if (files_.empty()) throw UsageError("an image data set needs at least one file");
  if (options_.size == ImageSize{}) options_.size = read_image(files_.front(), options_.color).size;
}

SampleSpec ImageFolder::spec() const {
  SampleSpec spec;
  spec.data_shape = {options_.color == ColorMode::kGray ? 1 : 3, options_.size.height, options_.size.width};
  if (options_.target.write) {
    spec.target_shape = options_.target.shape;
    spec.target_type = options_.target.type;
  }
  return spec;
}

void ImageFolder::get_into(std::int64_t index, SampleContext& /*context*/, SampleSlot slot) {
  const fs::path& file = files_[static_cast<std::size_t>(index)];
  read_image_into(file, options_, slot.data_as<float>());
  if (options_.target.write) options_.target.write(file, slot.target);
}

}  // namespace lockstep
