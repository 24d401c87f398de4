// SPDX-License-Identifier: Apache-2.0
// Reads the samples of packed files in place, in mapped memory.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "data/sources/files/mapped_file.h"
#include "data/sources/packed/packed_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sources/packed.h"

namespace lockstep {
namespace fs = std::filesystem;

namespace data {

class PackedFile {
 public:
  explicit PackedFile(const fs::path& path) : file_(path) {
    Result<PackedIndex> index = parse_packed(file_.bytes());
    if (!index) throw damaged(index.error());
    index_ = std::move(index).value();
    // The index is copied: if the file were truncated while in use, reading the mapped index would kill the process.
    entries_ = index_.entries;
    index_.entries = entries_;
    seen_ = std::vector<std::atomic<bool>>(static_cast<std::size_t>(index_.count));
  }

  [[nodiscard]] const PackedIndex& index() const noexcept { return index_; }

  [[nodiscard]] DataError damaged(const std::string& why) const {
    return DataError(fmt::format("cannot read {}: {}", file_.path().string(), why),
                     "pack the data again with lockstep pack");
  }

  [[nodiscard]] std::string_view part(std::uint64_t offset, std::uint64_t size) const {
    return file_.bytes().substr(offset, size);
  }

  void check(std::int64_t sample, const PackedEntry& entry) const {
    if (!file_.whole()) throw damaged("it was truncated while it was in use");
    file_.will_need(entry.offset, entry.pixel_bytes + entry.marks_bytes);
    if (packed_hash(part(entry.offset, entry.pixel_bytes + entry.marks_bytes)) == entry.hash) return;
    throw damaged(fmt::format("byte {}: sample {} differs from what was written", entry.offset, sample));
  }

  // Verifies the hash of a sample only once, since training reads each sample many times.
  void check_once(std::int64_t sample, const PackedEntry& entry) {
    std::atomic<bool>& seen = seen_[static_cast<std::size_t>(sample)];
    if (seen.load(std::memory_order_relaxed)) {
      if (!file_.whole()) throw damaged("it was truncated while it was in use");
      return;
    }
    check(sample, entry);
    seen.store(true, std::memory_order_relaxed);
  }

  [[nodiscard]] const fs::path& path() const noexcept { return file_.path(); }

 private:
  MappedFile file_;
  PackedIndex index_;
  std::string entries_;
  std::vector<std::atomic<bool>> seen_;
};

}  // namespace data

PackedImages::PackedImages(const fs::path& path) : file_(std::make_shared<data::PackedFile>(path)) {}

std::int64_t PackedImages::size() const { return file_->index().count; }
const std::vector<std::string>& PackedImages::class_names() const { return file_->index().classes; }

AnnotatedImage PackedImages::get(std::int64_t index) const {
  const data::PackedEntry entry = file_->index().entry(index);
  file_->check_once(index, entry);
  const std::string_view pixels = file_->part(entry.offset, entry.pixel_bytes);
  const ImageSize size{entry.width, entry.height};
  Result<AnnotatedImage> marks =
      data::parse_packed_marks(file_->part(entry.offset + entry.pixel_bytes, entry.marks_bytes), size);
  if (!marks) {
    throw file_->damaged(fmt::format("byte {}: sample {}: {}", entry.offset + entry.pixel_bytes, index, marks.error()));
  }
  AnnotatedImage picture = std::move(marks).value();
  if (entry.encoded == 1) {
    picture.pixels =
        EncodedImage{file_, pixels, fmt::format("{} (sample {} of {})", picture.name, index, file_->path().string())};
    picture.pixels.fit_to(size);  // marks of an older file refer to the pixels as stored
  } else {
    PixelView view;
    view.owner = file_;
    view.data = reinterpret_cast<const std::uint8_t*>(pixels.data());
    view.size = size;
    view.channels = entry.channels;
    picture.pixels = std::move(view);
  }
  return picture;
}

void PackedImages::check(const std::function<void(std::int64_t)>& progress) const {
  for (std::int64_t i = 0; i < size(); ++i) {
    file_->check(i, file_->index().entry(i));
    if (progress) progress(i + 1);
  }
}

}  // namespace lockstep
