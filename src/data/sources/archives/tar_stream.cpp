// SPDX-License-Identifier: Apache-2.0
// Reads a shard from its start to its end, with one sample in memory.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "data/sources/archives/tar_marks_json.h"
#include "data/sources/archives/tar_parse.h"
#include "data/sources/files/command.h"
#include "data/sources/files/files.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/sources/tar_shards.h"

namespace lockstep {
namespace data {
namespace {

constexpr std::string_view kPipe = "pipe:";

ByteStream open_shard(const std::string& shard, const TarOptions& options) {
  if (!shard.starts_with(kPipe)) return ByteStream::open_file(shard);
  if (!options.allow_commands) {
    throw UsageError(fmt::format("'{}' would run a command", shard),
                     "set allow_commands to true if the list of shards can be trusted");
  }
  return ByteStream::run_command(shard.substr(kPipe.size()));
}

}  // namespace

/// Reads ahead by one file: only the name of the next file shows that a sample is complete.
class TarPipe {
 public:
  TarPipe(const std::string& shard, const TarOptions& options)
      : stream_(open_shard(shard, options)), options_(options) {}

  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }

  std::optional<AnnotatedImage> next() {
    for (;;) {
      std::vector<File> files = next_files();
      if (files.empty()) {
        if (left_out_ > 0)
          log::note("{} samples without a PNG or JPEG skipped in {}", std::exchange(left_out_, 0), stream_.name());
        return std::nullopt;
      }
      if (std::optional<AnnotatedImage> picture = picture_of_files(files)) return picture;
      ++left_out_;
    }
  }

 private:
  struct File {
    TarName name;
    std::string content;
    std::uint64_t offset = 0;
  };

  [[nodiscard]] DataError fault(std::uint64_t offset, const std::string& why) const {
    return DataError(fmt::format("cannot read the shard {}: byte {}: {}", stream_.name(), offset, why));
  }

  // Closes the stream first: if the command has failed, that is the cause of any error in its output.
  [[noreturn]] void fail(std::uint64_t offset, const std::string& why) {
    done_ = true;
    stream_.close();
    throw fault(offset, why);
  }

  std::vector<File> next_files() {
    std::vector<File> files;
    if (ahead_) files.push_back(*std::exchange(ahead_, std::nullopt));
    while (!done_) {
      std::optional<File> file = next_file();
      if (!file) break;
      if (file->name.extension.empty()) continue;
      if (!files.empty() && files.front().name.key != file->name.key) {
        ahead_ = std::move(file);
        break;
      }
      const auto twin =
          std::ranges::find(files, file->name.extension, [](const File& one) { return one.name.extension; });
      if (twin != files.end())
        fail(file->offset, fmt::format("sample '{}' has two files '.{}'", file->name.key, file->name.extension));
      files.push_back(*std::move(file));
    }
    return files;
  }

  std::optional<File> next_file() {
    for (;;) {
      const std::uint64_t offset = at_;
      const std::string block = take(kTarBlock);
      Result<TarScanner::Step> step = scanner_.block(block);
      if (!step) fail(offset, step.error());
      if (step->what == TarScanner::What::kEnd) {
        require_zeros();
        done_ = true;
        stream_.close();
        return std::nullopt;
      }
      if (step->size > kMaxTarFile)
        fail(offset, fmt::format("'{}' has {} bytes, more than 1 GiB", step->name, step->size));
      std::string content = take(step->size);
      (void)take(tar_padded(step->size) - step->size);
      if (step->what == TarScanner::What::kFile && step->name == kTarClassNames) classes_ = tar_class_names(content);
      if (step->what == TarScanner::What::kFile) return File{split_tar_name(step->name), std::move(content), offset};
      if (step->what == TarScanner::What::kText) {
        if (const Result<bool> good = scanner_.text(content); !good) fail(offset, good.error());
      }
    }
  }

  // Reads to the end. After an archive's end there are only zeros, unless several archives were joined.
  void require_zeros() {
    std::string rest(65536, '\0');
    for (std::size_t got = rest.size(); got == rest.size();) {
      got = stream_.read(rest.data(), rest.size());
      const std::size_t other = std::string_view(rest.data(), got).find_first_not_of('\0');
      if (other != std::string_view::npos) {
        fail(at_ + other, "more data after the end of the archive: several archives in one file?");
      }
      at_ += got;
    }
  }

  // Allocates memory as the bytes arrive, because the size in a header may be wrong.
  std::string take(std::uint64_t size) {
    constexpr std::uint64_t kPiece = 1 << 20;
    std::string bytes;
    while (bytes.size() < size) {
      const std::size_t old = bytes.size();
      const std::size_t piece = std::min(kPiece, size - old);
      bytes.resize(old + piece);
      const std::size_t got = stream_.read(bytes.data() + old, piece);
      at_ += got;
      if (got < piece) fail(at_, "cut short");
    }
    return bytes;
  }

  std::optional<AnnotatedImage> picture_of_files(std::vector<File>& files) {
    const auto file = std::ranges::find_if(files, [](const File& one) { return is_tar_picture(one.name.extension); });
    const std::string& key = files.front().name.key;
    if (file == files.end()) {
      if (options_.strict) throw fault(files.front().offset, fmt::format("sample '{}' has no PNG or JPEG", key));
      return std::nullopt;
    }
    AnnotatedImage picture;
    picture.id = count_++;
    picture.name = fmt::format("{}/{}", stream_.name(), key);
    picture.pixels = encoded_bytes(std::move(file->content), fmt::format("{}.{}", picture.name, file->name.extension));
    std::vector<TarContent> contents;
    for (const File& other : files) {
      if (&other != &*file) contents.push_back({other.name.extension, other.content});
    }
    if (const Result<bool> good = read_tar_marks(contents, picture); !good) {
      throw fault(files.front().offset, fmt::format("sample '{}': {}", key, good.error()));
    }
    return picture;
  }

  ByteStream stream_;
  TarOptions options_;
  TarScanner scanner_;
  std::optional<File> ahead_;
  std::vector<std::string> classes_;
  std::uint64_t at_ = 0;
  std::int64_t count_ = 0;
  std::int64_t left_out_ = 0;
  bool done_ = false;
};

}  // namespace data

TarStream::TarStream(const std::string& shard, const TarOptions& options)
    : pipe_(std::make_unique<data::TarPipe>(shard, options)) {}
TarStream::~TarStream() = default;
TarStream::TarStream(TarStream&&) noexcept = default;
TarStream& TarStream::operator=(TarStream&&) noexcept = default;

std::optional<AnnotatedImage> TarStream::next() { return pipe_->next(); }
const std::vector<std::string>& TarStream::class_names() const noexcept { return pipe_->classes(); }

}  // namespace lockstep
