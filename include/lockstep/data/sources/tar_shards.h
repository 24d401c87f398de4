// SPDX-License-Identifier: Apache-2.0
// Shards in WebDataset's layout: tar files in which consecutive entries with the same name up to the first dot form a
// sample. docs/design/data_sources.md lists the extensions. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/picture.h"

#pragma GCC visibility push(default)

namespace lockstep {
namespace data {
class TarSet;
class TarPipe;
class TarFile;
}  // namespace data

/// Expands braces: "a-{000..002}.tar" becomes a-000.tar, a-001.tar, a-002.tar; "{x,y}" becomes x, y. Returns all
/// combinations; the last brace varies fastest.
/// Throws: UsageError if a brace is not closed, a range is invalid, or there are more than a million names.
[[nodiscard]] std::vector<std::string> expand_braces(const std::string& pattern);

/// The options for reading shards.
struct TarOptions {
  bool strict = true;           ///< false: samples without an image are skipped; their number is logged
  bool allow_commands = false;  ///< lets "pipe:COMMAND" run COMMAND in a shell
};

/// Reads local shards. Opening reads their headers once; then any sample can be read at any time. Thread-safe: yes.
class TarShards final : public ImageSource {
 public:
  /// Throws: DataError naming the shard and the byte offset of the damage, or two shards with different class names;
  ///         IoError.
  explicit TarShards(const std::vector<std::string>& shards, const TarOptions& options = {});
  /// Opens all shards of a pattern. Throws: UsageError for a command, which needs a TarStream.
  explicit TarShards(const std::string& pattern, const TarOptions& options = {});

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] AnnotatedImage get(std::int64_t index) const override;
  /// Returns the class names of the first shard that has some; TarWriter stores them in its first shard.
  [[nodiscard]] const std::vector<std::string>& class_names() const override;

 private:
  std::shared_ptr<data::TarSet> set_;
};

/// Reads one shard from its start to its end: a file, or the output of a command ("pipe:curl -s https://host/a.tar").
/// Thread-safe: no.
class TarStream {
 public:
  /// Throws: UsageError if a command is not allowed; DataError if the file is missing; IoError.
  explicit TarStream(const std::string& shard, const TarOptions& options = {});
  ~TarStream();
  TarStream(TarStream&&) noexcept;
  TarStream& operator=(TarStream&&) noexcept;

  /// Returns the next sample; none at the end.
  /// Blocks: yes. Throws: DataError naming the shard and offset, or the status of a command that failed; IoError.
  [[nodiscard]] std::optional<AnnotatedImage> next();
  /// Returns the class names that have been read so far.
  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept;

 private:
  std::unique_ptr<data::TarPipe> pipe_;
};

/// The options of TarWriter.
struct TarWriterOptions {
  std::uint64_t shard_bytes = 0;  ///< a shard ends with the sample that reaches this size; 0: one shard, exactly `path`
  std::vector<std::string> class_names = {};  ///< names by class id, which are stored in the first shard
};

/// Writes shards: "train.tar", or "train-000000.tar" and so on. Thread-safe: only prepare().
class TarWriter {
 public:
  /// Throws: IoError.
  TarWriter(std::filesystem::path path, TarWriterOptions options = {});
  ~TarWriter();
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  /// Returns the sample's tar entries, with the image as its original file or as PNG. The key is `index`.
  [[nodiscard]] static std::string prepare(AnnotatedImage picture, std::int64_t index);
  /// Appends a sample. Throws: IoError.
  void append(const std::string& sample);
  /// Prepares and appends an image. Throws: DataError naming the image; IoError.
  void add(AnnotatedImage picture) { append(prepare(std::move(picture), count_)); }
  /// Completes the last shard. Throws: IoError; DataError if there is no sample.
  void finish();

  /// Returns the number of samples so far.
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }
  /// Returns the number of bytes written so far.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Returns the shards that are complete.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const noexcept { return files_; }

 private:
  void begin();
  void end();

  std::filesystem::path path_;
  TarWriterOptions options_;
  std::unique_ptr<data::TarFile> file_;
  std::int64_t count_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<std::filesystem::path> files_;
};

}  // namespace lockstep

#pragma GCC visibility pop
