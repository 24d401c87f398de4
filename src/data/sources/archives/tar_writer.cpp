// SPDX-License-Identifier: Apache-2.0
// Writes shards that WebDataset and TarShards read; each appears whole or not at all.
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "data/codec.h"
#include "data/sources/archives/tar_marks_json.h"
#include "data/sources/archives/tar_parse.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file_system.h"
#include "lockstep/data/png_writer.h"
#include "lockstep/data/sources/tar_shards.h"

namespace lockstep {
namespace fs = std::filesystem;

namespace data {

/// A shard under a temporary name. The file is removed unless it is moved to its final name.
class TarFile {
 public:
  explicit TarFile(fs::path path)
      : path_(std::move(path)),
        temporary_(path_.string() + fmt::format(".tmp-{}", ::getpid())),
        file_(FileSystem::system().create(temporary_)) {}
  ~TarFile() {
    std::error_code ignored;
    if (file_ != nullptr) fs::remove(temporary_, ignored);
  }
  TarFile(const TarFile&) = delete;
  TarFile& operator=(const TarFile&) = delete;

  void append(std::string_view bytes) {
    file_->append(bytes.data(), bytes.size());
    bytes_ += bytes.size();
  }
  void finish() {
    append(std::string(2 * kTarBlock, '\0'));
    file_->sync();
    FileSystem::system().rename(temporary_, path_);
    file_ = nullptr;
    FileSystem::system().sync_folder(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

 private:
  fs::path path_;
  fs::path temporary_;
  std::unique_ptr<WritableFile> file_;
  std::uint64_t bytes_ = 0;
};

namespace {

std::string class_lines(const std::vector<std::string>& names) {
  std::string lines;
  for (const std::string& name : names) lines += name + "\n";
  return lines;
}

}  // namespace
}  // namespace data

TarWriter::TarWriter(fs::path path, TarWriterOptions options) : path_(std::move(path)), options_(std::move(options)) {
  begin();
}
TarWriter::~TarWriter() = default;

void TarWriter::begin() {
  fs::path path = path_;
  if (options_.shard_bytes > 0) {
    path.replace_filename(fmt::format("{}-{:06}{}", path_.stem().string(), files_.size(), path_.extension().string()));
  }
  file_ = std::make_unique<data::TarFile>(std::move(path));
  if (!options_.class_names.empty()) {
    file_->append(data::tar_member(std::string(data::kTarClassNames), data::class_lines(options_.class_names)));
  }
}

void TarWriter::end() {
  file_->finish();
  bytes_ += file_->bytes();
  files_.push_back(file_->path());
  file_ = nullptr;
}

std::string TarWriter::prepare(AnnotatedImage picture, std::int64_t index) {
  const std::string key = fmt::format("{:08}", index);
  std::string bytes;
  (void)picture.pixels.size();  // a bad header is reported now, not during training
  const EncodedImage* encoded = picture.pixels.encoded_image();
  if (encoded != nullptr && !encoded->as_stored) {
    bytes = data::tar_member(key + (data::is_png(encoded->bytes) ? ".png" : ".jpg"), encoded->bytes);
  } else {
    bytes = data::tar_member(key + ".png", encode_png(picture.pixels.view()));
  }
  if (picture.label) bytes += data::tar_member(key + ".cls", std::to_string(*picture.label));
  if (picture.captions.size() == 1) bytes += data::tar_member(key + ".txt", picture.captions.front());
  bytes += data::tar_member(key + ".json", data::tar_marks_json(picture));
  for (std::size_t i = 0; i < picture.maps.size(); ++i) {
    const std::string name = i == 0 ? key + ".seg.png" : fmt::format("{}.seg{}.png", key, i);
    bytes += data::tar_member(name, encode_png(view_of(picture.maps[i].image)));
  }
  return bytes;
}

void TarWriter::append(const std::string& sample) {
  if (file_ == nullptr) begin();
  file_->append(sample);
  ++count_;
  if (options_.shard_bytes > 0 && file_->bytes() >= options_.shard_bytes) end();
}

void TarWriter::finish() {
  if (count_ == 0) throw DataError(fmt::format("nothing to write into {}", path_.string()));
  if (file_ != nullptr) end();
}

}  // namespace lockstep
