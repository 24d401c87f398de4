// SPDX-License-Identifier: Apache-2.0
// The bytes of an unfinished transfer, kept for the next attempt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/base/file_system.h"

namespace lockstep::checkpoint {

/// The files <path>.part, and <path>.part.tag with the server's tag for the content. The caller holds a lock.
class PartialFile {
 public:
  /// Opens the bytes left by an earlier attempt. Bytes without a tag belong to unknown content and are discarded.
  /// Throws: IoError.
  explicit PartialFile(const std::filesystem::path& path);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Returns the server's tag for this content ("ETag", else "Last-Modified"); "" if it sent none.
  [[nodiscard]] const std::string& tag() const { return tag_; }

  /// Discards all bytes; later bytes belong to the content tagged `tag`. Throws: IoError.
  void restart(const std::string& tag);
  /// Appends bytes. Throws: IoError.
  void append(std::string_view bytes);
  /// Renames the complete file to its final path, durably. Throws: IoError.
  void finish();
  /// Removes the file and its tag.
  void remove();
  [[nodiscard]] std::filesystem::path part_path() const;

 private:
  [[nodiscard]] std::filesystem::path tag_path() const;

  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t size_ = 0;
  std::string tag_;
};

}  // namespace lockstep::checkpoint
