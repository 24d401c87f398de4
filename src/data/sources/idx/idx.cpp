// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/sources/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/codec.h"
#include "data/sources/files/files.h"
#include "data/sources/idx/idx_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

template <class T>
double number_at(const std::string& bytes, std::int64_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

bool are_images(const IdxFile& file) {
  const auto& shape = file.shape;
  const bool color = shape.size() == 4 && shape[3] == 3;
  if (file.type != IdxType::kUint8 || (shape.size() != 3 && !color)) return false;
  const auto side = [](std::int64_t pixels) { return pixels >= 1 && pixels <= data::kMaxSide; };
  return side(shape[1]) && side(shape[2]);
}

std::int64_t image_bytes(const IdxFile& file) {
  return file.shape[1] * file.shape[2] * (file.shape.size() == 4 ? 3 : 1);
}

}  // namespace

std::int64_t idx_bytes(IdxType type) noexcept {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 1;
}

constexpr std::uint64_t kMostIdxBytes = std::uint64_t{4} << 30U;

IdxFile IdxFile::read(const fs::path& path) {
  Result<IdxFile> file = data::parse_idx(FileSystem::system().read(path, kMostIdxBytes));
  if (!file) throw DataError(fmt::format("cannot read {}: {}", path.string(), file.error()));
  return std::move(file).value();
}

double IdxFile::at(std::int64_t index) const {
  switch (type) {
    case IdxType::kUint8:
      return number_at<std::uint8_t>(bytes, index);
    case IdxType::kInt8:
      return number_at<std::int8_t>(bytes, index);
    case IdxType::kInt16:
      return number_at<std::int16_t>(bytes, index);
    case IdxType::kInt32:
      return number_at<std::int32_t>(bytes, index);
    case IdxType::kFloat32:
      return number_at<float>(bytes, index);
    case IdxType::kFloat64:
      return number_at<double>(bytes, index);
  }
  return 0;
}

IdxImages::IdxImages(const fs::path& images, const fs::path& labels)
    : name_(images.string()), images_(IdxFile::read(images)) {
  if (!are_images(images_)) {
    throw DataError(fmt::format("{} contains no images: images must be bytes, N x H x W or N x H x W x 3", name_));
  }
  if (labels.empty()) return;
  const IdxFile file = IdxFile::read(labels);
  const bool whole = file.type != IdxType::kFloat32 && file.type != IdxType::kFloat64;
  if (file.shape.size() != 1 || !whole)
    throw DataError(fmt::format("{} contains no labels: labels must be N whole numbers", labels.string()));
  if (file.shape[0] != images_.shape[0]) {
    throw DataError(fmt::format("{} contains {} labels, but {} contains {} images", labels.string(), file.shape[0],
                                name_, images_.shape[0]));
  }
  for (std::int64_t i = 0; i < file.shape[0]; ++i) labels_.push_back(static_cast<std::int64_t>(file.at(i)));
}

const std::uint8_t* IdxImages::pixels(std::int64_t index) const {
  return reinterpret_cast<const std::uint8_t*>(images_.bytes.data()) + index * image_bytes(images_);
}

std::int64_t IdxImages::label(std::int64_t index) const {
  return labels_.empty() ? 0 : labels_[static_cast<std::size_t>(index)];
}

AnnotatedImage IdxImages::get(std::int64_t index) const {
  AnnotatedImage picture;
  const std::uint8_t* first = pixels(index);
  picture.pixels = Image{image_size(), channels(), {first, first + image_bytes(images_)}};
  picture.id = index;
  picture.name = fmt::format("{}[{}]", name_, index);
  if (has_labels()) picture.label = label(index);
  return picture;
}

IdxPaths find_idx(const fs::path& images, const std::string& split) {
  const auto with_labels = [](const fs::path& file) {
    IdxPaths paths{file, {}};
    std::string name = file.filename().string();
    if (const std::size_t at = name.find("images"); at != std::string::npos) name.replace(at, 6, "labels");
    if (const std::size_t at = name.find("idx3"); at != std::string::npos) name.replace(at, 4, "idx1");
    const fs::path labels = file.parent_path() / name;
    if (labels != file && FileSystem::system().exists(labels)) paths.labels = labels;
    return paths;
  };
  if (!fs::is_directory(images)) return with_labels(images);
  for (const char* ending :
       {"-images-idx3-ubyte.gz", "-images-idx3-ubyte", "-images.idx3-ubyte.gz", "-images.idx3-ubyte"}) {
    const fs::path file = images / (split + ending);
    if (FileSystem::system().exists(file)) return with_labels(file);
  }
  throw DataError(fmt::format("{} holds no {}-images-idx3-ubyte, plain or gzipped", images.string(), split),
                  "pass the prefix of the file names as the split, such as train or t10k");
}

}  // namespace lockstep
