// SPDX-License-Identifier: Apache-2.0
// Writes packed files: samples one after the other, then the index, then the footer that completes the file.
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "data/sources/files/numbers.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/picture.h"
#include "lockstep/data/sources/packed.h"

namespace lockstep::data {
namespace {

// The functions that shrink an image and its marks before it is packed.

Image nearest(const Image& image, ImageSize size) {
  Image result{size, image.channels, {}};
  result.pixels.reserve(static_cast<std::size_t>(size.width * size.height * image.channels));
  for (std::int64_t y = 0; y < size.height; ++y) {
    const std::int64_t from_y = (2 * y + 1) * image.size.height / (2 * size.height);
    for (std::int64_t x = 0; x < size.width; ++x) {
      const std::int64_t from_x = (2 * x + 1) * image.size.width / (2 * size.width);
      const auto* from = image.pixels.data() + (from_y * image.size.width + from_x) * image.channels;
      result.pixels.insert(result.pixels.end(), from, from + image.channels);
    }
  }
  return result;
}

/// Shrinks the decoded image so that no side is longer than `max_side`; smaller images stay as they are. Pixels are
/// averaged by area, masks and maps take the nearest pixel.
void shrink(AnnotatedImage& picture, std::int64_t max_side, ColorMode color) {
  const ImageSize old = picture.pixels.size();
  const std::int64_t longest = std::max(old.width, old.height);
  if (longest <= max_side) return;
  const auto scaled = [&](std::int64_t side) {
    return std::max<std::int64_t>(1, (side * max_side + longest / 2) / longest);
  };
  const ImageSize size{scaled(old.width), scaled(old.height)};
  const float by_x = static_cast<float>(size.width) / static_cast<float>(old.width);
  const float by_y = static_cast<float>(size.height) / static_cast<float>(old.height);
  picture.pixels = resize_image(picture.pixels.decoded(color), size);
  for (Object& object : picture.objects) {
    object.box = {object.box.x1 * by_x, object.box.y1 * by_y, object.box.x2 * by_x, object.box.y2 * by_y};
    object.area *= by_x * by_y;
    for (Point& point : object.points) point = {point.x * by_x, point.y * by_y, point.visible};
    if (object.mask) object.mask = nearest(*object.mask, size);
  }
  for (LabelMap& map : picture.maps) map.image = nearest(map.image, size);
}

}  // namespace
}  // namespace lockstep::data

namespace lockstep {

namespace fs = std::filesystem;

namespace data {

/// The file being written, and the data for its index.
class PackedSink {
 public:
  explicit PackedSink(fs::path path)
      : path_(std::move(path)),
        temporary_(path_.string() + fmt::format(".tmp-{}", ::getpid())),
        file_(FileSystem::system().create(temporary_)) {
    write(packed_header());
  }
  ~PackedSink() {
    std::error_code ignored;
    if (file_ != nullptr) fs::remove(temporary_, ignored);
  }
  PackedSink(const PackedSink&) = delete;
  PackedSink& operator=(const PackedSink&) = delete;

  void append(PackedEntry entry, std::string_view pixels, std::string_view marks) {
    entry.offset = bytes_;
    entry.pixel_bytes = pixels.size();
    entry.marks_bytes = static_cast<std::uint32_t>(marks.size());
    write(pixels);
    write(marks);
    static constexpr char kZeros[kPackedAlign] = {};
    write({kZeros, (kPackedAlign - bytes_ % kPackedAlign) % kPackedAlign});
    index_ += packed_entry(entry);
    ++count_;
  }

  void finish(const std::vector<std::string>& classes) {
    if (count_ == 0) throw DataError(fmt::format("nothing to pack into {}", path_.string()));
    index_ += packed_classes(classes);
    const std::uint64_t index_at = bytes_;
    write(index_);
    write(packed_footer(index_, index_at, count_));
    file_->sync();
    FileSystem::system().rename(temporary_, path_);
    file_ = nullptr;
    FileSystem::system().sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void write(std::string_view part) {
    if (!part.empty()) file_->append(part.data(), part.size());
    bytes_ += part.size();
  }

  fs::path path_;
  fs::path temporary_;
  std::unique_ptr<WritableFile> file_;
  std::uint64_t bytes_ = 0;
  std::uint64_t count_ = 0;
  std::string index_;
};

}  // namespace data

namespace {

std::string_view bytes_of(Pixels& pixels) {
  if (const EncodedImage* encoded = pixels.encoded_image()) return encoded->bytes;
  const Image& image = pixels.decoded();
  return {reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()};
}

std::uint64_t hash_of(std::string_view pixels, std::string_view marks) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state.get());
  XXH3_64bits_update(state.get(), pixels.data(), pixels.size());
  XXH3_64bits_update(state.get(), marks.data(), marks.size());
  return XXH3_64bits_digest(state.get());
}

}  // namespace

PackedWriter::PackedWriter(fs::path path, PackedOptions options) : options_(std::move(options)) {
  if (options_.encoded && options_.max_side > 0) {
    throw UsageError("images that stay encoded cannot be shrunk", "omit either --encoded or --max-side");
  }
  if (options_.max_side < 0)
    throw UsageError(fmt::format("max_side is {}; it must be a number of pixels", options_.max_side));
  sink_ = std::make_unique<data::PackedSink>(std::move(path));
}

PackedWriter::~PackedWriter() = default;

PackedSample PackedWriter::prepare(AnnotatedImage picture) const {
  const EncodedImage* encoded = picture.pixels.encoded_image();
  if (!options_.encoded || (encoded != nullptr && encoded->as_stored)) {  // readers of an encoded file rotate it
    (void)picture.pixels.decoded(options_.color);
    if (options_.max_side > 0) data::shrink(picture, options_.max_side, options_.color);
  } else {
    (void)picture.pixels.size();  // a bad header is reported now, not during training
  }
  for (const Object& object : picture.objects) {
    const std::string fault = data::object_fault(object);
    if (!fault.empty()) throw DataError(fmt::format("an object of {} has {}", picture.name, fault));
  }
  PackedSample sample;
  sample.marks = data::packed_marks(picture);
  if (sample.marks.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw DataError(fmt::format("the marks of {} take {} bytes, more than 4 GiB", picture.name, sample.marks.size()));
  }
  sample.pixels = std::move(picture.pixels);
  sample.hash = hash_of(bytes_of(sample.pixels), sample.marks);
  return sample;
}

void PackedWriter::append(PackedSample sample) {
  data::PackedEntry entry;
  entry.hash = sample.hash;
  const ImageSize size = sample.pixels.size();
  entry.width = static_cast<std::uint32_t>(size.width);
  entry.height = static_cast<std::uint32_t>(size.height);
  entry.encoded = sample.pixels.encoded() ? 1 : 0;
  if (entry.encoded == 0) entry.channels = static_cast<std::uint8_t>(sample.pixels.decoded().channels);
  sink_->append(entry, bytes_of(sample.pixels), sample.marks);
}

void PackedWriter::finish() { sink_->finish(options_.class_names); }

std::int64_t PackedWriter::size() const noexcept { return static_cast<std::int64_t>(sink_->count()); }
std::uint64_t PackedWriter::bytes() const noexcept { return sink_->bytes(); }

}  // namespace lockstep
